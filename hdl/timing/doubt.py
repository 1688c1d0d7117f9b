"""What a part of a timing filter makes of a cell that an upset may have changed."""


class NoDoubt:
    """Of a cell without protection nothing is doubted."""

    def vouched(self, held):
        """Return whether the word counts that was read.

        Parameters
        ----------
        held : Staged
            Whether it does if there is nothing to doubt.
        """
        return held

    def lost(self, lost):
        """Return whether the cell has expired whatever was read.

        Parameters
        ----------
        lost : Staged
            Whether it has if there is nothing to doubt.
        """
        return lost

    def told(self, answer, held):
        """Return the age, a stage later.

        Parameters
        ----------
        answer, held : Staged
            The age, and whether the word counts, if there is nothing to doubt.
        """
        return answer.at(answer.stage + 1)


class Doubt(NoDoubt):
    """Of a cell whose copies differ it is told: most of them have decided already.

    Parameters
    ----------
    m : Module
        Gets the connection.
    part : CellPart
        Tells of upsets.
    wrong : Staged
        Whether what was read is upset.
    """

    def __init__(self, m, part, wrong):
        self._m, self._part, self._wrong = m, part, wrong

    def told(self, answer, held):
        """As of `NoDoubt`; tells of upsets, too.

        Parameters
        ----------
        answer, held : Staged
        """
        upset = self._wrong & held
        self._m.d.comb += self._part.upset.eq(upset.at(upset.stage + 1).value)
        return super().told(answer, held)


class Parity(Doubt):
    """A cell whose parity is wrong is as young as any.

    Parameters
    ----------
    m, part, wrong
        As for `Doubt`.
    pipe : Pipeline
        Gets the register.
    met : Staged
        Whether the cell was read while the sweep wrote it as it was wrong.
    """

    def __init__(self, m, part, wrong, pipe, met):
        super().__init__(m, part, wrong)
        self._pipe, self._met = pipe, met

    def vouched(self, held):
        """As of `NoDoubt`.

        Parameters
        ----------
        held : Staged
        """
        return held & ~self._wrong

    def lost(self, lost):
        """As of `NoDoubt`.

        Parameters
        ----------
        lost : Staged
        """
        return lost & ~self._met

    def told(self, answer, held):
        """As of `Doubt`.

        Parameters
        ----------
        answer, held : Staged
        """
        young = self._wrong & held | self._met
        super().told(answer, held)
        return self._pipe.register(
            "young",
            lambda answer, young: answer & ~young.replicate(len(answer)),
            answer,
            young,
            reset_less=True,
        )
