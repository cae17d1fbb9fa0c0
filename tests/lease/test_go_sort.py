"""Go's order of equal elements, compared with what Go 1.26's `sort.Sort` did (digests of the order of indices)."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.sdl.order import go_sorted


def _keys(length: int, kinds: int, pattern: int) -> list[int]:
    """Random, rising, falling or sawtooth keys; the last three disturbed by some swaps."""
    state = length * 1000 + kinds * 10 + pattern
    keys: list[int] = []

    def draw() -> int:
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return state >> 16

    for index in range(length):
        random = draw() % kinds
        keys.append([random, index * kinds // length, (length - 1 - index) * kinds // length, index % kinds][pattern])
    for _ in range(length // 10 if pattern else 0):
        left, right = draw() % length, draw() % length
        keys[left], keys[right] = keys[right], keys[left]
    return keys


RECORDED = """
13 2 0 72549384
13 2 1 e0e33076
13 2 2 ced519a6
13 2 3 88ce6335
13 3 0 6c3a0d7d
13 3 1 bbe12666
13 3 2 206cbc09
13 3 3 dc3509ed
13 7 0 dc2d94bf
13 7 1 ac6a0f89
13 7 2 53e8ee08
13 7 3 a0708319
14 2 0 09cb242d
14 2 1 b866c5ac
14 2 2 a475e5db
14 2 3 00c0d9d5
14 3 0 e5be059f
14 3 1 fb4392eb
14 3 2 933d544a
14 3 3 a4608f64
14 7 0 fc8dc53f
14 7 1 29f0ca91
14 7 2 8212c642
14 7 3 42bbccaa
20 2 0 0fa974c2
20 2 1 d0d42ed7
20 2 2 ddff2557
20 2 3 19e90e75
20 3 0 c2fa8bee
20 3 1 d91c181c
20 3 2 d2e75bef
20 3 3 d9885324
20 7 0 ebf9f7e4
20 7 1 e8871e2b
20 7 2 d2ab3e9c
20 7 3 fd72d643
33 2 0 150b778b
33 2 1 cd7d755f
33 2 2 cb08114b
33 2 3 d89e4a1e
33 3 0 749627e8
33 3 1 5654c828
33 3 2 3b41a188
33 3 3 f38870f7
33 7 0 c13025cc
33 7 1 ef380873
33 7 2 479c5cf6
33 7 3 d509eeec
49 2 0 7c2b56f4
49 2 1 44b78018
49 2 2 e692f15c
49 2 3 98b2a74b
49 3 0 6daa3a4d
49 3 1 2b61e94f
49 3 2 8943411e
49 3 3 09a5791e
49 7 0 cbc2c5ad
49 7 1 8bdbd755
49 7 2 4c697447
49 7 3 39d874f1
50 2 0 bc7c3e32
50 2 1 9f326d07
50 2 2 39be94d0
50 2 3 f92c3926
50 3 0 2f3eff5a
50 3 1 87a791c6
50 3 2 a923833e
50 3 3 a78c26a9
50 7 0 aeb4fb3b
50 7 1 f82563cc
50 7 2 458a166d
50 7 3 df11ccbf
51 2 0 e1b2dd4e
51 2 1 491dc166
51 2 2 3b34a50b
51 2 3 496d5196
51 3 0 11bdcb83
51 3 1 63105971
51 3 2 df08c42e
51 3 3 73b54446
51 7 0 fe77bb87
51 7 1 9adb548f
51 7 2 20d5bd1d
51 7 3 e9453b85
64 2 0 73837788
64 2 1 2a4b3498
64 2 2 06acb0f3
64 2 3 e254ea6e
64 3 0 6d87a602
64 3 1 f8086bcd
64 3 2 e5b41f1f
64 3 3 b6ffcec8
64 7 0 104bd219
64 7 1 7359ad21
64 7 2 d6b3a33d
64 7 3 108653a5
100 2 0 b96e95ff
100 2 1 25da3030
100 2 2 3568b0a8
100 2 3 c58e9149
100 3 0 96a79c05
100 3 1 a2cbc3aa
100 3 2 8559895d
100 3 3 cfc9f3d7
100 7 0 a6c8c4a9
100 7 1 de193002
100 7 2 9c80c51b
100 7 3 6b4c55ce
127 2 0 a984aec6
127 2 1 2a4a9c86
127 2 2 49b0a426
127 2 3 e32537a8
127 3 0 0c46ee6f
127 3 1 e6943923
127 3 2 3b799464
127 3 3 8ed82db9
127 7 0 f281b903
127 7 1 25fd086f
127 7 2 e89bd5ae
127 7 3 43577dc2
200 2 0 dabeecf4
200 2 1 bde5bcc2
200 2 2 ff94baf8
200 2 3 76f79b1d
200 3 0 2c4e2c34
200 3 1 926f4b3c
200 3 2 978456b5
200 3 3 d7f8837a
200 7 0 004fe2dc
200 7 1 cdfc5b8e
200 7 2 5783f101
200 7 3 f99c4ce5
400 2 0 5309c665
400 2 1 b84b9d81
400 2 2 efea2025
400 2 3 ff308e75
400 3 0 900af24f
400 3 1 12020628
400 3 2 f47f0248
400 3 3 39ff5661
400 7 0 cdae3bb0
400 7 1 c82cb23c
400 7 2 32b46a27
400 7 3 9031b1d4
"""


@pytest.mark.parametrize("line", RECORDED.strip().splitlines())
def test_equal_elements_come_in_the_order_in_which_go_leaves_them(line: str) -> None:
    length, kinds, pattern, digest = line.split()
    keys = _keys(int(length), int(kinds), int(pattern))
    order = go_sorted(range(len(keys)), keys.__getitem__)
    text = "".join(f"{index} " for index in order)
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == digest


@given(st.lists(st.integers(0, 5), max_size=300))
def test_the_result_is_always_a_sorted_permutation(keys: list[int]) -> None:
    order = go_sorted(range(len(keys)), keys.__getitem__)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[index] for index in order] == sorted(keys)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_up_to_twelve_elements_the_order_is_stable(keys: list[int]) -> None:
    assert go_sorted(range(len(keys)), keys.__getitem__) == sorted(range(len(keys)), key=keys.__getitem__)
