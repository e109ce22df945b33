"""The generative models that GRAM is compared with: autoregressive, masked diffusion, D3PM and VAE."""
