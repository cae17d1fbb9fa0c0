"""Go's `sort.Sort` for lists with equal elements (sdl-and-manifest.md Appendix A).

Its order of equal elements is fixed but not stable, and affects the hash. Up to 12 elements it is an insertion sort,
hence stable. When all keys differ, any sort gives the same result. Otherwise it is the pattern-defeating quicksort,
repeated here step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

__all__ = ["go_sorted"]

T = TypeVar("T")

_INSERTION = 12
_MASK = 2**64 - 1


def go_sorted(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """`items` in the order in which Go leaves them; keys must be hashable."""
    values = list(items)
    if len(values) < 2:
        return values
    keys = [key(item) for item in values]
    if len(values) <= _INSERTION or len(set(keys)) == len(keys):
        return [values[index] for index in sorted(range(len(values)), key=keys.__getitem__)]
    sorter = _Sorter([(one, index) for index, one in enumerate(keys)])
    sorter.quick(0, len(keys), len(keys).bit_length())
    return [values[index] for _, index in sorter.data]


class _Sorter:
    """The list during the sort: (key, original index); only keys are compared."""

    def __init__(self, data: list[tuple[Any, int]]) -> None:
        self.data = data

    def less(self, left: int, right: int) -> bool:
        return bool(self.data[left][0] < self.data[right][0])

    def swap(self, left: int, right: int) -> None:
        self.data[left], self.data[right] = self.data[right], self.data[left]

    def insertion(self, low: int, high: int) -> None:
        for start in range(low + 1, high):
            at = start
            while at > low and self.less(at, at - 1):
                self.swap(at, at - 1)
                at -= 1

    def _sift(self, low: int, high: int, first: int) -> None:
        root = low
        while (child := 2 * root + 1) < high:
            if child + 1 < high and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def heap(self, low: int, high: int) -> None:
        length = high - low
        for index in range((length - 1) // 2, -1, -1):
            self._sift(index, length, low)
        for index in range(length - 1, -1, -1):
            self.swap(low, low + index)
            self._sift(0, index, low)

    def break_patterns(self, low: int, high: int) -> None:
        length = high - low
        if length < 8:
            return
        state, modulus = length, 1 << length.bit_length()
        start = low + 2 * (length // 4) - 1
        for index in range(start, start + 3):
            state ^= (state << 13) & _MASK
            state ^= state >> 7
            state ^= (state << 17) & _MASK
            other = state & (modulus - 1)
            self.swap(index, low + (other - length if other >= length else other))

    def _median(self, places: list[int], swaps: list[int]) -> int:
        """Middle of three places by exchanging the places, not the elements; each exchange is counted."""
        for left, right in ((0, 1), (1, 2), (0, 1)):
            if self.less(places[right], places[left]):
                places[left], places[right] = places[right], places[left]
                swaps[0] += 1
        return places[1]

    def choose_pivot(self, low: int, high: int) -> tuple[int, int]:
        """(pivot, exchanges): 0 exchanges hint at an increasing range, 12 at a decreasing one."""
        length = high - low
        places = [low + length // 4 * part for part in (1, 2, 3)]
        swaps = [0]
        if length < 8:
            return places[1], 0
        if length >= 50:
            places = [self._median([place - 1, place, place + 1], swaps) for place in places]
        return self._median(places, swaps), swaps[0]

    def partial_insertion(self, low: int, high: int) -> bool:
        """Whether the range was (nearly) sorted; it is sorted then."""
        at = low + 1
        for _ in range(5):
            while at < high and not self.less(at, at - 1):
                at += 1
            if at == high:
                return True
            if high - low < 50:
                return False
            self.swap(at, at - 1)
            if at - low >= 2:
                for left in range(at - 1, 0, -1):
                    if not self.less(left, left - 1):
                        break
                    self.swap(left, left - 1)
            if high - at >= 2:
                for right in range(at + 1, high):
                    if not self.less(right, right - 1):
                        break
                    self.swap(right, right - 1)
        return False

    def partition_equal(self, low: int, high: int, pivot: int) -> int:
        self.swap(low, pivot)
        left, right = low + 1, high - 1
        while True:
            while left <= right and not self.less(low, left):
                left += 1
            while left <= right and self.less(low, right):
                right -= 1
            if left > right:
                return left
            self.swap(left, right)
            left, right = left + 1, right - 1

    def partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """(place of the pivot, whether nothing had to move)."""
        self.swap(low, pivot)
        left, right, untouched = low + 1, high - 1, True
        while True:
            while left <= right and self.less(left, low):
                left += 1
            while left <= right and not self.less(right, low):
                right -= 1
            if left > right:
                break
            self.swap(left, right)
            left, right, untouched = left + 1, right - 1, False
        self.swap(low, right)
        return right, untouched

    def quick(self, low: int, high: int, limit: int) -> None:
        balanced = untouched = True
        while (length := high - low) > _INSERTION:
            if limit == 0:
                self.heap(low, high)
                return
            if not balanced:
                self.break_patterns(low, high)
                limit -= 1
            pivot, increasing = self._directed_pivot(low, high)
            if balanced and untouched and increasing and self.partial_insertion(low, high):
                return
            if low > 0 and not self.less(low - 1, pivot):
                low = self.partition_equal(low, high, pivot)
                continue
            middle, untouched = self.partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.quick(low, middle, limit)
                low = middle + 1
            else:
                self.quick(middle + 1, high, limit)
                high = middle
        self.insertion(low, high)

    def _directed_pivot(self, low: int, high: int) -> tuple[int, bool]:
        """The pivot and whether the range looks increasing; a decreasing range is reversed first."""
        pivot, swaps = self.choose_pivot(low, high)
        if swaps == 12:
            self.data[low:high] = self.data[low:high][::-1]
            return high - 1 - (pivot - low), True
        return pivot, swaps == 0
