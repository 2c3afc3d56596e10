"""Pictures of the experiments: what a pixel shows can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation

from papers import reproduce

scenes = reproduce.import_from(Path(__file__).parents[2] / "papers", "scenes")
Box, Scene = scenes.Box, scenes.Scene

RED, BLUE = (0.8, 0.0, 0.0), (0.0, 0.0, 0.8)
FACING = scenes.LIGHT[0, 0]  # light of a face that looks to −x


def picture(boxes, R=None, shape=(3, 3), fade=np.inf, samples=1) -> np.ndarray:
    """The view from the origin, 90 degrees wide."""
    R = np.eye(3) if R is None else R
    return scenes.render(Scene.of(boxes, fade), (0, 0, 0), [R], shape, 90, samples)[0]


def random_turns(n: int) -> np.ndarray:
    return Rotation.random(n, random_state=0).as_matrix()


# ---------------------------------------------------------------- rays and boxes
def test_a_box_covers_the_pixels_that_it_should():
    # pixel centres look along (1, ±2/3 or 0, ±2/3 or 0): at x = 2 they are 4/3 from the middle
    seen = picture([Box((2, -1, -1), (3, 1, 1), RED)])
    assert_allclose(seen[1, 1], FACING * np.array(RED), rtol=1e-6)
    others = np.ones((3, 3), dtype=bool)
    others[1, 1] = False
    assert_allclose(seen[others], np.broadcast_to(scenes.SKY, (8, 3)))


def test_the_first_column_is_to_the_left_and_the_first_row_above():
    sky = scenes.SKY[0]
    left = picture([Box((2, 1, -1), (3, 2, 1), RED)])[..., 0] != sky
    above = picture([Box((2, -1, 1), (3, 1, 2), RED)])[..., 0] != sky
    assert_array_equal(np.argwhere(left), [[1, 0]])
    assert_array_equal(np.argwhere(above), [[0, 1]])


def test_the_nearer_box_hides_the_farther():
    near, far = Box((2, -1, -1), (3, 1, 1), RED), Box((5, -9, -9), (6, 9, 9), BLUE)
    for boxes in ([near, far], [far, near]):
        seen = picture(boxes)
        assert_allclose(seen[1, 1], FACING * np.array(RED), rtol=1e-6)
        assert_allclose(seen[0, 0], FACING * np.array(BLUE), rtol=1e-6)


def test_what_is_behind_is_not_seen():
    assert_allclose(picture([Box((-3, -9, -9), (-2, 9, 9), RED)]), np.tile(scenes.SKY, (3, 3, 1)))


def test_light_has_halved_at_the_distance_of_fade():
    dim = picture([Box((2, -1, -1), (3, 1, 1), RED)], fade=2)
    assert_allclose(dim[1, 1], 0.5 * FACING * np.array(RED), rtol=1e-6)


def test_patterns_alternate_along_their_axes():
    # at x = 1 the pixels of a row of four are at y = 3/4, 1/4, −1/4, −3/4
    stripes = Box((1, -9, -9), (2, 9, 9), RED, BLUE, (np.inf, 0.5, np.inf))
    seen = picture([stripes], shape=(4, 4))
    assert_array_equal(seen[..., 0] > 0, [[False, True, False, True]] * 4)
    checks = Box((1, -9, -9), (2, 9, 9), RED, BLUE, (np.inf, 0.5, 0.5))
    rows = picture([checks], shape=(4, 4))[..., 0] > 0
    assert_array_equal(rows, (np.add.outer(np.arange(4), np.arange(4)) % 2) == 0)


def test_samples_are_averaged():
    box = [Box((2, -0.3, -1), (3, 1, 1), RED)]
    fine = picture(box, shape=(6, 6))
    blocks = fine.reshape(3, 2, 3, 2, 3).mean(axis=(1, 3))
    assert_allclose(picture(box, samples=2), blocks, rtol=1e-6)


def test_a_box_inside_out_is_refused():
    with pytest.raises(ValueError, match="low < high"):
        Scene.of([Box((0, 0, 0), (1, 1, 0), RED)])


# ---------------------------------------------------------------- cameras
def test_turning_the_camera_is_turning_the_world_the_other_way():
    boxes = [Box((0.5, 1, -0.5), (1, 1.5, 0.5), RED), Box((-1, 2, -2), (2, 3, 1), BLUE)]
    # by a quarter to the left, (x, y) is seen where (y, −x) was
    turned = [
        Box((b.low[1], -b.high[0], b.low[2]), (b.high[1], -b.low[0], b.high[2]), b.colour)
        for b in boxes
    ]
    rays = scenes.camera_rays((24, 24), 90, 1)
    by_camera = (scenes.turn(np.pi / 2)[0] @ rays).astype(np.float32)[:, None]
    start = np.zeros((3, 1, 1), dtype=np.float32)
    first, far = Scene.of(boxes).nearest(start, 1 / by_camera)
    second, also_far = Scene.of(turned).nearest(start, 1 / rays[:, None])
    assert set(np.unique(first)) == {-1, 0, 1}
    assert np.mean(first != second) < 0.01  # rays along an edge are rounded either way
    same = (first == second) & (first >= 0)
    assert_allclose(far[same], also_far[same], rtol=1e-4)


def test_rolling_the_camera_turns_the_picture():
    R = random_turns(4)
    quarter = Rotation.from_euler("x", 90, degrees=True).as_matrix()
    rolled = scenes.room20(R @ quarter)
    # the camera's left is now up: the top of the picture goes to the left
    expected = np.rot90(scenes.room20(R), axes=(1, 2))
    wrong = np.rot90(scenes.room20(R), axes=(2, 1))
    assert np.abs(rolled - expected).mean() < 1e-3
    assert np.abs(rolled - wrong).mean() > 0.05


def test_the_camera_by_the_table_looks_at_the_centre():
    places = np.array([[3.0, 4.0, 5.0], [-6.0, 0.1, 5.0], [0.0, 0.0, 5.0], [-0.0, -0.0, 5.0]])
    R = scenes.towards_centre(places)
    assert_allclose(R @ R.transpose(0, 2, 1), np.tile(np.eye(3), (4, 1, 1)), atol=1e-12)
    assert_allclose(np.linalg.det(R), 1)
    lengths = np.linalg.norm(places, axis=1)
    assert_allclose(R[:, :, 0] * lengths[:, None], -places, atol=1e-12)
    assert_allclose(R[:, 2, 1], 0, atol=1e-12)  # its left is level
    assert_allclose(R[2], R[3], atol=1e-12)


# ---------------------------------------------------------------- the pictures
POSES = {
    "room20": (random_turns(6), (20, 20, 3)),
    "table_and_chair": (
        np.array([[5.0, 0], [0, 5], [-5, 0], [0, -5], [9, 0], [0, 0]]),
        (100, 100, 3),
    ),
    "first_person": (np.arange(6.0), (36, 48, 3)),
    "sprite": (np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [0.3, 0.3]]), (64, 64)),
}


@pytest.mark.parametrize("name", POSES)
def test_pictures_of_different_poses_differ(name):
    poses, shape = POSES[name]
    seen = getattr(scenes, name)(poses)
    assert seen.shape == (len(poses), *shape)
    assert seen.dtype == np.float32
    assert seen.min() >= 0
    assert seen.max() <= 1
    flat = seen.reshape(len(seen), -1)
    apart = np.abs(flat[:, None] - flat[None]).mean(axis=2)
    assert apart[~np.eye(len(poses), dtype=bool)].min() > 0.01


@pytest.mark.parametrize("name", POSES)
def test_a_picture_does_not_depend_on_its_neighbours(name):
    poses, _ = POSES[name]
    render = getattr(scenes, name)
    together = render(poses)
    assert_array_equal(render(poses), together)
    for pose, seen in zip(poses, together, strict=True):
        assert_allclose(render(pose[None])[0], seen, atol=1e-6)


def test_blocks_of_rays_make_no_difference(monkeypatch):
    whole = scenes.first_person(np.arange(5.0))
    monkeypatch.setattr(scenes, "RAYS", 1)
    assert_allclose(scenes.first_person(np.arange(5.0)), whole, atol=1e-6)


def test_a_full_turn_in_the_maze_is_none():
    assert_allclose(scenes.first_person([0.4]), scenes.first_person([0.4 + 2 * np.pi]), atol=1e-4)


def test_cells_left_out_of_the_maze_cannot_be_seen():
    whole = Scene.of([scenes.ground(), *scenes.cells()], scenes.maze().fade)
    assert len(scenes.maze().centre) < len(whole.centre) / 2
    R = scenes.turn(np.linspace(0, 6, 30))
    seen = scenes.render(whole, (0, 0, 0.5), R, (36, 48), 80)
    assert_allclose(scenes.render(scenes.maze(), (0, 0, 0.5), R, (36, 48), 80), seen)


def test_a_sprite_moves_with_its_position():
    middle, right, above = scenes.sprite([[0, 0], [1, 0], [0, 1]])
    shift = int(scenes.PIXELS_PER_UNIT)
    assert_allclose(right, np.roll(middle, shift, axis=1), atol=0.25)  # edges by a third of a pixel
    assert_allclose(above, np.roll(middle, -shift, axis=0), atol=0.25)
    assert_allclose(middle, middle[:, ::-1])
    assert 100 < middle.sum() < 400
    assert scenes.sprite([[2.4, -2.4]]).sum() == pytest.approx(middle.sum(), rel=0.02)
