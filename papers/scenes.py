"""Small pictures for the experiments: a ray-caster of boxes, and a sprite. No display needed.

The world has z upwards. A camera is a place and a rotation R, whose columns are its forward, left
and up directions in the world: R = I looks along +x, a turn about z by θ looks to (cos θ, sin θ).
Pictures are float32 arrays (n, height, width, 3) in [0, 1], rows from the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

Colour = tuple[float, float, float]

SKY = np.array([0.62, 0.74, 0.88], dtype=np.float32)
LIGHT = np.array([[0.62, 0.8, 0.5], [0.88, 0.72, 1.0]], dtype=np.float32)  # of low, high faces
RAYS = 20_000  # at a time: what the processor's cache holds


@dataclass(frozen=True)
class Box:
    """A box between two corners, in one colour or in a pattern of two.

    The pattern alternates with every `period` along each axis: two finite periods on a face make
    a checkerboard, one makes stripes.
    """

    low: Sequence[float]
    high: Sequence[float]
    colour: Colour
    other: Colour | None = None
    period: Sequence[float] = (np.inf, np.inf, np.inf)


@dataclass(frozen=True)
class Scene:
    """Boxes, as arrays with one row each."""

    centre: np.ndarray
    half: np.ndarray  # half the side lengths
    colours: np.ndarray  # (boxes, 2, 3)
    period: np.ndarray
    fade: float  # the distance at which the light has halved

    @classmethod
    def of(cls, boxes: Sequence[Box], fade: float = np.inf) -> Scene:
        low = np.array([box.low for box in boxes], dtype=np.float32)
        high = np.array([box.high for box in boxes], dtype=np.float32)
        if not (low < high).all():
            raise ValueError("every box needs low < high on all axes")
        colours = [(box.colour, box.other or box.colour) for box in boxes]
        return cls(
            centre=(low + high) / 2,
            half=(high - low) / 2,
            colours=np.array(colours, dtype=np.float32),
            period=np.array([box.period for box in boxes], dtype=np.float32),
            fade=fade,
        )

    def nearest(self, start, inverse) -> tuple[np.ndarray, np.ndarray]:
        """The first box that each ray meets from outside (−1: none), and the distance."""
        distance = np.full(inverse.shape[1:], np.inf, dtype=np.float32)
        hit = np.full(inverse.shape[1:], -1)
        size = np.abs(inverse)
        for b, (centre, half) in enumerate(zip(self.centre, self.half, strict=True)):
            enter, leave = np.float32(0), distance
            for axis in range(3):
                middle = (centre[axis] - start[axis]) * inverse[axis]
                reach = half[axis] * size[axis]
                enter = np.maximum(enter, middle - reach)
                leave = np.minimum(leave, middle + reach)
            closer = (enter > 0) & (enter < leave)
            distance = np.where(closer, enter, distance)
            hit[closer] = b
        return hit, distance

    def trace(self, start, direction) -> np.ndarray:
        """Colours (n, rays, 3) seen from `start` (3, n, 1) along `direction` (3, n, rays)."""
        flat = np.abs(direction) < 1e-9
        inverse = 1 / np.where(flat, np.float32(1e-9), direction)
        hit, distance = self.nearest(start, inverse)
        found = hit >= 0
        seen = np.broadcast_to(SKY, (*hit.shape, 3)).copy()
        start = np.broadcast_to(start, direction.shape)[:, found].T
        seen[found] = self.shade(start, direction[:, found].T, hit[found], distance[found])
        return seen

    def shade(self, start, direction, box, distance) -> np.ndarray:
        """The colour of the face that is hit: its pattern, its light, dimmer far away."""
        rows, point = np.arange(len(box)), start + distance[:, None] * direction
        outward = (point - self.centre[box]) / self.half[box]
        axis = np.abs(outward).argmax(axis=1)
        upper = (outward[rows, axis] > 0).astype(int)
        inside = self.centre[box] + 0.999 * outward * self.half[box]  # off the face's own edge
        parity = np.floor(inside / self.period[box]).sum(axis=1).astype(int) % 2
        strength = LIGHT[upper, axis] / (1 + distance / self.fade)
        return self.colours[box, parity] * strength[:, None].astype(np.float32)


def render(
    scene: Scene, places, rotations, shape: tuple[int, int], view: float, samples: int = 1
) -> np.ndarray:
    """Pictures (n, height, width, 3) from `places` (n, 3) with `rotations` (n, 3, 3).

    `view` is the horizontal angle of view in degrees; a pixel is the mean of samples² rays.
    """
    rotations = np.asarray(rotations, dtype=np.float32)
    places = np.broadcast_to(np.asarray(places, dtype=np.float32), rotations.shape[:2])
    rays = camera_rays(shape, view, samples)
    step = max(1, RAYS // rays.shape[1])
    parts = []
    for i in range(0, len(places), step):
        direction = np.moveaxis(rotations[i : i + step] @ rays, 1, 0)
        parts.append(scene.trace(places[i : i + step].T[:, :, None], direction))
    (height, width), n = shape, len(places)
    fine = np.concatenate(parts).reshape(n, height, samples, width, samples, 3)
    return fine.mean(axis=(2, 4))


@cache
def camera_rays(shape: tuple[int, int], view: float, samples: int) -> np.ndarray:
    """Directions in the camera's frame through every sample, from the top left; (3, rays)."""
    height, width = (side * samples for side in shape)
    size = 2 * np.tan(np.deg2rad(view) / 2) / width
    left = (width / 2 - 0.5 - np.arange(width)) * size
    up = (height / 2 - 0.5 - np.arange(height)) * size
    rays = np.stack([np.ones((height, width)), *np.meshgrid(left, up)])
    return (rays / np.linalg.norm(rays, axis=0)).reshape(3, -1).astype(np.float32)


def turn(angle) -> np.ndarray:
    """Rotations about the vertical, (n, 3, 3)."""
    c, s = np.cos(np.atleast_1d(angle)), np.sin(np.atleast_1d(angle))
    zero, one = np.zeros_like(c), np.ones_like(c)
    return np.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=-1).reshape(-1, 3, 3)


# ---------------------------------------------------------------- a room (Fukumizu 2013, Table 1)
def room20(R) -> np.ndarray:
    """What a camera in the middle of a room sees under rotations R (n, 3, 3): (n, 20, 20, 3)."""
    return render(room(), (0.0, 0.0, 0.0), R, (20, 20), view=75, samples=3)


@cache
def room() -> Scene:
    """Six sides of different colours and patterns, with furniture along the walls."""
    far = np.inf
    sides = [
        Box((3, -4, -2), (3.2, 4, 2), (0.85, 0.3, 0.25), (0.65, 0.2, 0.2), (far, 1.0, far)),
        Box((-3.2, -4, -2), (-3, 4, 2), (0.3, 0.45, 0.85), (0.6, 0.7, 0.95), (far, 1.6, 1.3)),
        Box((-3, 4, -2), (3, 4.2, 2), (0.35, 0.7, 0.35), (0.25, 0.55, 0.3), (0.75, far, far)),
        Box((-3, -4.2, -2), (3, -4, 2), (0.95, 0.85, 0.45), (0.9, 0.65, 0.3), (far, far, 0.8)),
        Box((-3, -4, -2.2), (3, 4, -2), (0.6, 0.4, 0.25), (0.4, 0.25, 0.15), (1.0, 1.0, far)),
        Box((-3, -4, 2), (3, 4, 2.2), (0.95, 0.95, 0.9), (0.75, 0.8, 0.85), (1.5, 2.0, far)),
    ]
    furniture = [
        Box((2.9, -0.6, -0.3), (3, 1.2, 1.1), (0.95, 0.95, 1.0), (0.55, 0.8, 1.0), (far, 0.6, 0.7)),
        Box((2.2, -3.6, -2), (3, -1.9, 0.2), (0.25, 0.15, 0.1)),  # a cupboard
        Box((-3, -2.5, -2), (-2.0, -0.5, -1.0), (0.2, 0.2, 0.3)),  # a sofa, and its back
        Box((-3, -2.5, -1.0), (-2.7, -0.5, -0.3), (0.3, 0.2, 0.4)),
        Box((-3, 1.5, -2), (-2.95, 2.7, 0.8), (0.45, 0.25, 0.1)),  # a door
        Box((-1.5, 3.0, -1.2), (1.2, 4, -1.05), (0.9, 0.8, 0.6)),  # a table, a thing on it
        Box((-0.2, 3.3, -1.05), (0.5, 3.9, -0.4), (0.9, 0.1, 0.6)),
        Box(
            (-0.9, -4, -0.2), (0.9, -3.9, 1.2), (0.1, 0.35, 0.5), (0.95, 0.5, 0.1), (0.9, far, 0.7)
        ),
        Box((-0.4, 0.9, 1.6), (0.4, 1.7, 2), (1.0, 0.9, 0.3)),  # a lamp
        Box((-1.2, -1.8, -1.99), (0.8, 0.6, -1.95), (0.2, 0.5, 0.55)),  # a rug
    ]
    return Scene.of(sides + furniture, fade=20.0)


# ---------------------------------------------------------------- a chair (Song 2016, Figure 3)
HEIGHT = 5.0  # of the camera


def table_and_chair(positions) -> np.ndarray:
    """The scene from `positions` (n, 2) at a fixed height, towards the centre: (n, 100, 100, 3)."""
    positions = np.asarray(positions, dtype=float)
    places = np.column_stack([positions, np.full(len(positions), HEIGHT)])
    return render(furniture(), places, towards_centre(places), (100, 100), view=55)


def towards_centre(places) -> np.ndarray:
    """Rotations that look at the origin without roll; straight above it, as if coming from +x."""
    x, y = places[:, 0] + 0.0, places[:, 1] + 0.0  # no negative zeros, which have other angles
    angle = np.arctan2(y, x)
    zero = np.zeros_like(angle)
    forward = -places / np.linalg.norm(places, axis=1, keepdims=True)
    left = np.column_stack([np.sin(angle), -np.cos(angle), zero])
    return np.stack([forward, left, np.cross(forward, left)], axis=-1)


@cache
def furniture() -> Scene:
    """A table with a chair beside it on a floor of wide stripes."""
    wood, seat, leg, far = (0.72, 0.5, 0.28), (0.75, 0.2, 0.2), (0.3, 0.25, 0.2), np.inf
    table = [Box((-2.0, -0.9, 1.3), (1.0, 1.1, 1.45), wood)]
    table += [
        Box((x, y, 0), (x + 0.15, y + 0.15, 1.3), leg) for x in (-1.9, 0.75) for y in (-0.8, 0.85)
    ]
    chair = [
        Box((1.2, -0.6, 0.8), (2.2, 0.5, 0.9), seat),
        Box((2.1, -0.6, 0.9), (2.2, 0.5, 2.1), (0.85, 0.45, 0.15)),
    ]
    chair += [Box((x, y, 0), (x + 0.1, y + 0.1, 0.8), leg) for x in (1.2, 2.1) for y in (-0.6, 0.4)]
    things = [
        Box((-1.6, 0.2, 1.45), (-0.9, 0.8, 1.55), (0.2, 0.35, 0.8)),  # a book and a box
        Box((0.1, -0.6, 1.45), (0.5, -0.2, 2.0), (0.9, 0.85, 0.3)),
    ]
    floor = Box((-60, -60, -1), (60, 60, 0), (0.62, 0.62, 0.58), (0.5, 0.53, 0.5), (far, 6.0, far))
    return Scene.of([floor, *table, *chair, *things], fade=40.0)


# ---------------------------------------------------------------- a maze (Xu 2022, Figure 5)
MAZE = (
    "#########",
    "#   #   #",
    "# # # # #",
    "# #   # #",
    "#   @  ##",  # the agent stands at @
    "# ### # #",
    "#   #   #",
    "### # # #",
    "#########",
)
WALLS: tuple[Colour, ...] = (
    (0.85, 0.25, 0.2),
    (0.2, 0.45, 0.85),
    (0.25, 0.65, 0.3),
    (0.9, 0.75, 0.2),
    (0.6, 0.3, 0.7),
    (0.9, 0.5, 0.2),
    (0.3, 0.75, 0.8),
)


def first_person(theta) -> np.ndarray:
    """The maze for an agent that faces the directions `theta` (n,): (n, 36, 48, 3)."""
    return render(maze(), (0.0, 0.0, 0.5), turn(theta), (36, 48), view=80, samples=2)


@cache
def maze() -> Scene:
    """The floor, and the cells that the agent can see."""
    found, ring = cells(), turn(np.linspace(0, 2 * np.pi, 3600))[:, :, 0].T[:, None, :]
    seen, _ = Scene.of(found).nearest((0, 0, 0.5), 1 / np.where(ring == 0, 1e-9, ring))
    return Scene.of([ground(), *(found[b] for b in np.unique(seen))], fade=8.0)


def cells() -> list[Box]:
    """The filled cells of the maze, around the agent, in seven colours."""
    ((row, column),) = ((i, line.index("@")) for i, line in enumerate(MAZE) if "@" in line)
    return [
        wall(x=j - column, y=row - i, kind=(2 * i + 3 * j) % len(WALLS))
        for i, line in enumerate(MAZE)
        for j, cell in enumerate(line)
        if cell == "#"
    ]


def ground() -> Box:
    """The floor of the maze, and beyond."""
    side, light, dark = len(MAZE), (0.6, 0.57, 0.5), (0.45, 0.42, 0.4)
    return Box((-side, -side, -1), (side, side, 0), dark, light, (0.5, 0.5, np.inf))


def wall(x: int, y: int, kind: int) -> Box:
    """A filled cell, with stripes that lie or bricks that stand."""
    colour = WALLS[kind]
    dark = (0.5 * colour[0], 0.5 * colour[1], 0.5 * colour[2])
    bricks = (0.25, 0.25, np.inf) if kind % 2 else (np.inf, np.inf, 0.25 + 0.1 * kind / 2)
    return Box((x - 0.5, y - 0.5, 0), (x + 0.5, y + 0.5, 1.2), colour, dark, bricks)


# ---------------------------------------------------------------- sprites (Xu 2022, Figure 6)
SIDE = 64  # pixels, as dSprites has
PIXELS_PER_UNIT = 10.0  # of the latent plane: ±2.4 keeps the sprite on the canvas
RADIUS = 7.0  # pixels, about: of the middle sizes of dSprites


def sprite(position) -> np.ndarray:
    """A heart on black, its middle at `position` (n, 2), x to the right, y up: (n, 64, 64)."""
    position = np.asarray(position, dtype=np.float32)
    fine = 3  # rays along each side of a pixel
    offset = (np.arange(SIDE * fine, dtype=np.float32) + 0.5) / fine - SIDE / 2
    x = (offset - PIXELS_PER_UNIT * position[:, :1]) / RADIUS
    y = (-offset - PIXELS_PER_UNIT * position[:, 1:]) / RADIUS
    x2, y2, y3 = (x**2)[:, None, :], (y**2)[:, :, None], (y**3)[:, :, None]
    inside = (x2 + y2 - 1) ** 3 < x2 * y3
    return inside.reshape(-1, SIDE, fine, SIDE, fine).mean(axis=(2, 4), dtype=np.float32)
