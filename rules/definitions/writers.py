"""TensorBoard's writer: that of tensorboardX takes arrays, and no tensors."""

import mindspore as ms


def as_arrays(value):
    if isinstance(value, ms.Tensor):
        return value.asnumpy()
    if isinstance(value, dict):
        return {name: as_arrays(item) for name, item in value.items()}
    return [as_arrays(item) for item in value] if isinstance(value, (list, tuple)) else value


class SummaryWriter:
    """The writer of tensorboardX, which is given arrays for tensors."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        import tensorboardX  # only where something is written

        self.writer = tensorboardX.SummaryWriter(
            log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix
        )
        self.log_dir = self.writer.logdir

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    def get_logdir(self):
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        self.writer.add_scalar(tag, as_arrays(scalar_value), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        self.writer.add_scalars(main_tag, as_arrays(tag_scalar_dict), global_step, walltime)

    def add_histogram(self, tag, values, *args, **kwargs):
        self.writer.add_histogram(tag, as_arrays(values), *args, **kwargs)

    def add_image(self, tag, img_tensor, *args, **kwargs):
        self.writer.add_image(tag, as_arrays(img_tensor), *args, **kwargs)

    def add_images(self, tag, img_tensor, *args, **kwargs):
        self.writer.add_images(tag, as_arrays(img_tensor), *args, **kwargs)

    def add_video(self, tag, vid_tensor, *args, **kwargs):
        self.writer.add_video(tag, as_arrays(vid_tensor), *args, **kwargs)

    def add_audio(self, tag, snd_tensor, *args, **kwargs):
        self.writer.add_audio(tag, as_arrays(snd_tensor), *args, **kwargs)

    def add_embedding(self, mat, metadata=None, label_img=None, *args, **kwargs):
        self.writer.add_embedding(as_arrays(mat), metadata, as_arrays(label_img), *args, **kwargs)

    def add_pr_curve(self, tag, labels, predictions, *args, **kwargs):
        self.writer.add_pr_curve(tag, as_arrays(labels), as_arrays(predictions), *args, **kwargs)

    def add_mesh(self, tag, vertices, colors=None, faces=None, *args, **kwargs):
        self.writer.add_mesh(tag, as_arrays(vertices), as_arrays(colors), as_arrays(faces), *args, **kwargs)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        metrics = {name: float(value) for name, value in metric_dict.items()}
        self.writer.add_hparams(hparam_dict, metrics, run_name, global_step)

    def add_graph(self, *args, **kwargs):
        """Nothing traces what a cell computes: no graph is shown."""

    def add_text(self, *args, **kwargs):
        self.writer.add_text(*args, **kwargs)

    def add_figure(self, *args, **kwargs):
        self.writer.add_figure(*args, **kwargs)

    def add_custom_scalars(self, layout):
        self.writer.add_custom_scalars(layout)

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()
