"""The models that GRAM is compared with: AR, MDLM, D3PM and VAE."""
