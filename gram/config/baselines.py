"""The settings of the models that GRAM is compared with."""

from typing import Literal

from pydantic import Field, model_validator

from gram.config.model import ImageSection
from gram.config.section import Section


class TransformerConfig(Section):
    """The size of a stack of blocks."""

    dim: int = Field(64, ge=1)
    """Width of every token's state."""
    layers: int = Field(4, ge=1)
    """Blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads."""
    hidden: int = Field(192, ge=1)
    """Hidden width of the SwiGLU."""
    positions: Literal["learned", "rope", "both"] = "both"
    """Learned position embeddings, rotary ones inside attention, or both."""

    @model_validator(mode="after")
    def _heads_fit(self) -> "TransformerConfig":
        if self.dim % (2 * self.heads):
            raise ValueError(f"dim {self.dim} must be a multiple of 2 x heads ({self.heads})")
        return self


class DenoiserConfig(TransformerConfig, ImageSection):
    """A Transformer whose inputs are the input, a noisy output and, if it has an embedding for it, the time."""

    time_dim: int = Field(64, ge=0)
    """Width of the time's code, which modulates every block (DiT, adaLN-zero); 0 for plain blocks without time."""


class ArConfig(TransformerConfig):
    """An autoregressive Transformer. Paper size, 10.6M: dim 384, 6 layers, 6 heads, hidden 1024."""

    kind: Literal["ar"] = "ar"


class MdlmConfig(DenoiserConfig):
    """Masked diffusion. Paper size, 12.6M: dim 384, 6 layers, 6 heads, hidden 1024, time_dim 128."""

    kind: Literal["mdlm"] = "mdlm"
    time_conditioning: bool = False
    """Tell the network the time; published without, because the number of masks says as much."""
    smallest_time: float = Field(1e-3, gt=0, lt=1)
    """Training times lie between this and 1: the weight 1/t grows without limit."""
    sample_steps: int = Field(1000, ge=1)
    """Steps of the sampler, unless a sampling option says otherwise."""


class D3pmConfig(DenoiserConfig):
    """D3PM. Paper sizes, with 1000 steps: small, 15.9M: dim 512, 3 layers, 8 heads, hidden 1536, time_dim 512;
    big, 55.1M: dim 768, 5 layers, 12 heads, hidden 2048, time_dim 768."""

    kind: Literal["d3pm"] = "d3pm"
    noise: Literal["uniform", "absorbing"] = "uniform"
    """Where noise leads: to any token (cosine schedule), or to MASK (mutual-information schedule)."""
    steps: int = Field(1000, ge=1)
    """Steps of the diffusion [T]."""
    cross_entropy: float = Field(0.001, ge=0)
    """Weight of the cross-entropy of x_0 beside one term of the bound [lambda]."""


class VaeConfig(Section):
    """A variational autoencoder of two hidden layers on either side."""

    kind: Literal["vae"] = "vae"
    hidden: int = Field(512, ge=1)
    """Width of the hidden layers."""
    latent: int = Field(32, ge=1)
    """Width of the latent vector z."""
    beta: float = Field(1.0, ge=0)
    """Weight of the KL in the loss; 1 is the ELBO."""
