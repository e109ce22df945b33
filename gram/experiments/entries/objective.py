"""Beyond the paper: which KL is charged, how strongly, and whether the model learns from its own rollouts."""

from gram.experiments.entry import Entry, Run

BETAS = {
    "2-0.75": ("2", "0.75"),
    "4.5": ("4.5", "null"),
    "2": ("2", "null"),
    "4.5-2": ("4.5", "2"),
    "1": ("1", "null"),
    "8": ("8", "null"),
    "0.07": ("0.07", "null"),
}
"""Per labelled token, at the start and at the end of the training."""
LEARNING = {
    "plain": ("objective.learn_from_rollouts=false", "objective.prior_share=0.125"),
    "rollouts": ("objective.learn_from_rollouts=true", "objective.prior_share=0.5"),
}
SHORT = ("train.steps=1000", "train.eval_every=1000", "train.save_every=1000")


def _cell(scope: str, beta: str, learning: str) -> Run:
    first, last = BETAS[beta]
    objective = (f"objective.kl_scope={scope}", f"objective.beta={first}", f"objective.beta_final={last}")
    return Run(
        group="nqueens-8",
        row=f"{scope}, {beta.replace('-', ' to ')}, {learning}",
        recipe="nqueens-8/gram",
        overrides=(*SHORT, *objective, *LEARNING[learning]),
        label=f"{scope}-{beta}-{learning}",
        minutes=3.5,
    )


ENTRIES = (
    Entry(
        name="objective",
        title="Beyond the paper: KL scope x beta x learning from rollouts on 8-queens, pilots on the validation split",
        cpu=tuple(_cell(scope, beta, learning) for beta in BETAS for scope in ("all", "last") for learning in LEARNING),
        measure="settings_grid",
        measuring={"depths": (8, 16), "temperatures": (1.0, 1.3), "width": 20, "limit": 150},
        figure="objective",
    ),
)
