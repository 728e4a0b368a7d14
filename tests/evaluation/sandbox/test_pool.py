"""The pool of idle slots."""

from evaluation.sandbox.pool import Pool


class _EmptiedList(list):
    """A list whose last item another thread takes between the question whether there is one and `pop`."""

    def __bool__(self):
        return True


def test_closing_beside_a_job_that_takes_the_last_slot_raises_nothing():
    pool = Pool(object)
    pool._get_process_slots().idle = _EmptiedList()
    pool.close()
