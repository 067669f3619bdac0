"""examples/deploy: the first stage of the Dockerfile as the script that it runs, since tests have no registry for its base image, the last
one built by buildah, too, and the server in a root folder that holds what the last stage holds."""

import os
import re
import shutil
import socket
import subprocess
import time

import numpy
import pytest
import torch

from conftest import BIN, ROOT

DEPLOY = ROOT / "examples" / "deploy"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The folder that becomes the image, and the module."""
    folder = tmp_path_factory.mktemp("deploy")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)).eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (torch.ones(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "model.pt2")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "KILN_INCLUDE": str(ROOT / "include")}
    # The Dockerfile's commands, with its paths in this folder.
    (command,) = re.findall(r"^RUN /work/(build\.sh) /work/(model\.pt2) /(image) (--cpu=\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    script, model, name, cpu = command
    done = subprocess.run([DEPLOY / script, folder / model, folder / name, cpu], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder / name, module


def test_holds_nothing_else(image):
    files = [path for path in image[0].rglob("*") if not path.is_dir()]
    names = {path.name for path in files}
    assert names <= {"model.so", "server", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}, names
    assert {"model.so", "server", "libc.so.6", "ld-linux-x86-64.so.2"} <= names
    assert not any(path.is_symlink() for path in image[0].rglob("*"))
    assert sum(path.stat().st_size for path in files) < 8e6
    body = (DEPLOY / "server.c").read_text().split("int main(int argc, char **argv) {\n")[1].rsplit("}", 1)[0]
    assert len(body.splitlines()) <= 20


def ask(port, picture):
    """What the server answers, once it is up."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(picture.numpy().tobytes())
                answer = b""
                while part := connection.recv(64):
                    answer += part
                return numpy.frombuffer(answer, "float32")
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@pytest.fixture(scope="module")
def built(image, tmp_path_factory):
    """The files of the image that buildah makes of the Dockerfile's last stage."""
    if not shutil.which("buildah"):
        pytest.skip("buildah is missing: scripts/setup --all installs it")
    folder = tmp_path_factory.mktemp("buildah")
    _, last = (DEPLOY / "Dockerfile").read_text().split("FROM scratch\n")
    (folder / "Dockerfile").write_text("FROM scratch\n" + last)
    buildah = ["buildah", "--storage-driver=vfs", f"--root={folder}/root", f"--runroot={folder}/run"]
    stages = [f"--build-context=build={image[0].parent}", f"--output=type=local,dest={folder}/files"]
    done = subprocess.run([*buildah, "bud", "--isolation=chroot", *stages, "--tag=classifier", folder], capture_output=True, text=True)
    if re.search("operation not permitted|newuidmap|user namespace", done.stderr, re.I):
        pytest.skip(f"buildah cannot work here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    form = "{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.ExposedPorts}}"
    done = subprocess.run([*buildah, "inspect", "--type=image", f"--format={form}", "classifier"], capture_output=True, text=True)
    assert done.stdout.split() == ["[/server]", "map[8080/tcp:{}]"], done.stderr
    return folder / "files"


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_buildah(image, built):
    assert contents(built) == contents(image[0])


@pytest.mark.parametrize("root", ["script", "buildah"])
def test_server(image, root, request):
    """Run with the image as its root folder."""
    folder, module = image
    if root == "buildah":
        folder = request.getfixturevalue("built")
    enter = [shutil.which("chroot") or "/usr/sbin/chroot", folder]
    if os.geteuid() != 0:
        enter = ["unshare", "--map-root-user", *enter]
    if subprocess.run([*enter, "/nothing"], capture_output=True).returncode != 127:
        pytest.skip("this user cannot change the root folder")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([*enter, "/server", str(port)], env={})
    try:
        for picture in [torch.randn(1, 3, 8, 8) for _ in range(3)]:
            scores = ask(port, picture)
            numpy.testing.assert_allclose(scores, module(picture).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as half:
            half.sendall(bytes(100))  # a client that goes away
        assert len(ask(port, torch.ones(1, 3, 8, 8))) == 5
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
