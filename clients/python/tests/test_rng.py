from __future__ import annotations

from pairstream.rng import generator

# Drawn with internal/base/rng: New(7, "walk", 1, -2).
FIRST, LAST = 11744388865632968480, 2596856907445887251  # of 200
FLOATS = [0.04179863754843238, 0.2321710080696856, 0.8299270876722357, 0.9572834407321373]  # of 20
INTEGERS = [1, 773, 3608, 7369, 5558, 11150, 24629, 27771, 37811, 80325, 60607, 12449, 70940, 53683, 80881, 111088, 239947, 241885, 225489, 122089, 177689, 199521, 463172, 420484, 103277, 316906, 598357, 673393, 180862, 644125, 551973, 286999, 100666, 236014, 540814, 199667, 1110757, 1148385, 542316, 528588, 1086176, 1025195, 131531, 747594, 1396228, 1242041, 1808615, 2133898, 1682281, 881160, 84162, 1452044, 2143059, 1469813, 2158374, 2078126, 1238963, 2990339, 2496170, 2353034, 36, 21, 55, 36, 3, 44, 47, 41, 1, 33, 21, 37, 57, 15, 13, 37, 19, 56, 35, 42]  # below 3 + i*i*1000, then below 64


def test_the_numbers_are_those_of_go() -> None:
    draw = generator(7, "walk", 1, -2)
    values = [draw.uint64() for _ in range(200)]
    assert (values[0], values[199]) == (FIRST, LAST)
    assert [draw.random() for _ in range(20)][:4] == FLOATS
    assert [draw.integer(3 + i * i * 1000) for i in range(60)] + [draw.integer(64) for _ in range(20)] == INTEGERS


def test_every_part_of_the_key_counts() -> None:
    keys = [(7, "walk", 1, 2), (8, "walk", 1, 2), (7, "cuts", 1, 2), (7, "walk", 2, 1), (7, "walk", 1, 2, 0)]
    assert len({generator(*key).uint64() for key in keys}) == len(keys)
