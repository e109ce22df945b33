# `gram serve` in a container: PyTorch's CPU wheel, and a user without rights.
#   docker build -t gram .
#   docker run --rm -p 8000:8000 gram
# With a token, and other models:
#   docker run --rm -p 8000:8000 -v "$PWD/token:/run/token:ro" gram --token-file /run/token nqueens-8 sudoku-extreme
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY gram ./gram
RUN pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt '.[serve]' \
    && rm -rf /src

RUN useradd --create-home --uid 10001 gram
USER gram
WORKDIR /home/gram
# Numba keeps what it compiles, and matplotlib its fonts, where this user may write.
ENV NUMBA_CACHE_DIR=/home/gram/.cache/numba MPLCONFIGDIR=/home/gram/.cache/matplotlib

EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz')"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["gram", "serve", "--host", "0.0.0.0"]
CMD ["nqueens-8", "nqueens-10", "sudoku-extreme", "sudoku-generation", "digits"]
