"""Files that are whole or not there, JSON that notices a change, and folders with one process at a time."""

import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gram.errors import GramError
from gram.files import CHECKSUM_KEY, locked, read_json, remove_leftovers, write_json, write_whole

CONTENT = {"numbers": [1, 2.5, 1e-9], "by": {10: "ten", 9: "nine"}, "text": "x" * 50}


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", lambda path: path.write_text("text"))
        write_whole(tmp_path / "weights", lambda path: save_file({"a": torch.ones(2)}, path))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666 & ~mask}


def test_sealed_json_notices_every_flipped_bit_that_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, CONTENT)
    whole, expected, noticed = path.read_bytes(), json.loads(json.dumps(CONTENT)), 0
    assert read_json(path) == expected
    chance = random.Random(0)
    for _ in range(300):
        content = bytearray(whole)
        content[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        try:
            found = read_json(path)
        except GramError:
            noticed += 1
            continue
        found = {key: value for key, value in found.items() if key in expected}  # the checksum's own key may be flipped
        assert found == expected
    assert noticed > 200


def test_a_file_that_was_changed_on_purpose_can_lose_its_seal(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"depth": 3})
    content = json.loads(path.read_text()) | {"depth": 4}
    path.write_text(json.dumps(content))
    with pytest.raises(GramError, match=f"remove the line '{CHECKSUM_KEY}'"):
        read_json(path)
    del content[CHECKSUM_KEY]
    path.write_text(json.dumps(content))
    assert read_json(path) == {"depth": 4}


def test_weights_that_do_not_fit_the_disk_are_one_sentence(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk; in a process of its own, because it cannot be lifted."""
    code = (
        "import torch\nfrom pathlib import Path\nfrom safetensors.torch import save_file\n"
        "from gram.errors import GramError\nfrom gram.files import write_whole\n"
        "try:\n    write_whole(Path('weights'), lambda path: save_file({'a': torch.ones(10**6)}, path))\n"
        "except (GramError, OSError) as error:\n    print('refused:', error)\n"
    )
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, preexec_fn=limit, capture_output=True, text=True
    )
    assert done.stdout.startswith("refused: "), done.stderr
    assert not list(tmp_path.iterdir())


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in (".model.safetensors.0a1b2c3d", "below/.step-00000004.safetensors.ffffffff"):
        (tmp_path / name).write_text("half")
    mine = (".hidden", ".notes.txt", "model.safetensors", ".model.safetensors.backup")
    for name in mine:
        (tmp_path / name).write_text("mine")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(mine)


def test_a_lock_ends_with_its_block(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(GramError, match="Another process"), locked(tmp_path):
        raise AssertionError("two locks at once")
    with locked(tmp_path):
        pass
