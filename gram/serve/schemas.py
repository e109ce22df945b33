"""The schemas of requests and answers; FastAPI validates the former and documents both."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200, description="A model of GET /v1/models.")]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1, description="Seed of all noise: equal requests get equal answers.")]
UNTIL = (
    "Instead of a width: `first` (a verified solution), `all` (nearly all solutions), seconds such as `2.5s`, "
    "or a number of samples such as `500`."
)


class Ask(BaseModel):
    """Common fields of requests; the defaults are the model's own settings."""

    model_config = ConfigDict(extra="forbid")

    model: Name
    width: int | None = Field(None, ge=1, description="Trajectories.")
    depth: int | None = Field(None, ge=1, description="Supervision steps of a trajectory.")
    temperature: float | None = Field(None, ge=0, le=10, description="Scale of the noise; 0 follows the mean.")
    seed: Seed = 0
    halt: bool | None = Field(None, description="End a trajectory when its halt head is confident.")
    until: str | None = Field(None, max_length=32, description=UNTIL)
    stream: bool = Field(False, description="Send server-sent events, one per supervision step, then the answer.")
    latent: bool = Field(False, description="With `stream`: send a 16-number sketch of every latent state.")


class SolveRequest(Ask):
    """A puzzle to solve."""

    puzzle: str = Field(max_length=4096, description="As text: see `how` of the task in GET /v1/tasks.")


class GenerateRequest(Ask):
    """Samples of a model that generates from a blank input."""


class Error(BaseModel):
    """An error in one sentence."""

    error: str
    request_id: str


class Solution(BaseModel):
    """One of the distinct verified solutions."""

    tokens: list[int]
    text: str
    count: int = Field(description="Trajectories that found it.")


class Best(BaseModel):
    """The answer: a solution only if `verified`."""

    tokens: list[int]
    text: str
    verified: bool
    chosen_by: str


class Trajectory(BaseModel):
    """How one trajectory ended."""

    trajectory: int
    output: list[int]
    value: float = Field(description="The value head's estimate of the quality, 0 to 1.")
    confidence: float = Field(description="The halt head's probability that the output is right.")
    steps: int
    valid: bool
    conflicts: int


class EstimateOfSolutions(BaseModel):
    """How many solutions there are, by how often each was found (Chao1, Good-Turing)."""

    seen: int
    samples: int
    solutions: float
    low: int
    high: int
    known_next: float = Field(description="Probability that the next verified sample is one of those seen.")


class Answer(BaseModel):
    """The results of a request."""

    request_id: str
    model: str
    task: str
    given: list[int]
    settings: dict[str, Any]
    checked: bool = Field(description="Whether the task has rules to check by; if not, nothing is verified.")
    best: Best
    solutions: list[Solution]
    estimate: EstimateOfSolutions | None
    trajectories: list[Trajectory]
    stopped: str = Field(description="Why it ended before the depth or the width, if it did.")
    seconds: float


class Model(BaseModel):
    """A served model."""

    name: str
    status: Literal["loading", "ready"]
    task: str | None = None
    kind: Literal["solve", "generate"] | None = None
    board: dict[str, Any] | None = Field(None, description="How outputs are laid out.")
    random: bool | None = Field(None, description="Whether trajectories differ: GRAM's do, TRM's do not.")
    parameters: int | None = None
    defaults: dict[str, Any] | None = None


class Models(BaseModel):
    """All served models, and the limits of a request."""

    models: list[Model]
    limits: dict[str, int | float]


class TaskInfo(BaseModel):
    """A task of the served models."""

    name: str
    kind: Literal["solve", "generate"]
    how: str = Field(description="How a puzzle is written.")
    board: dict[str, Any]
    vocab_size: int
    length: int
    has_rules: bool
    models: list[str]


class Tasks(BaseModel):
    """The tasks of all models that are ready."""

    tasks: list[TaskInfo]


class Status(BaseModel):
    """Whether the service is up."""

    status: Literal["ok", "ready", "loading", "stopping"]
