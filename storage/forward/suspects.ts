/**
 * Points over which an upstream fails, one by one, with an error that says nothing of them. They are at fault when others are taken; where none is, the upstream
 * may be, and then nothing is given up before it was tried for long.
 */
import type { Rows } from './points.ts'

/** Requests that the other side fails over, until it is looked for in them. */
const REQUEST_TRIES = 8
/** Of a suspect, when others were taken: the upstream may have been mended meanwhile. Those behind it have one. */
export const LAST_TRIES = 2
/** Suspects without a point that was taken, from which on the other side is suspected itself; twice as many each time that they were set aside. */
const FEW = 16
/** How often the request is begun anew then, until they are set aside all the same: about ten minutes. */
const ROUNDS = 10

interface Suspect {
  rows: Rows
  /** In the request. */
  at: number
}

export class Suspects {
  /** The request has failed as a whole: parts of it are tried. */
  searching = false
  private suspects: Suspect[] = []
  /** A part was taken since the request was begun. */
  private someTaken = false
  private rounds = 0
  private most = FEW

  get size(): number {
    return this.suspects.length
  }

  /** Of the next request. */
  get tries(): number {
    return this.searching ? 1 : REQUEST_TRIES
  }

  add(suspect: Suspect): void {
    this.suspects.push(suspect)
  }

  /** The upstream has answered for other points. */
  taken(): void {
    this.someTaken = true
    this.rounds = 0
    this.most = FEW
  }

  /** @param last nothing is behind them. @returns whether to look further, to begin anew with the first suspect, or to set them aside. */
  conclude(last: boolean): 'further' | 'again' | 'guilty' {
    if (!last && this.suspects.length < this.most) return 'further'
    if (!this.someTaken && ++this.rounds < ROUNDS) {
      this.searching = false
      return 'again'
    }
    if (!this.someTaken) {
      this.rounds = 0
      this.most *= 2
    }
    this.someTaken = false
    return 'guilty'
  }

  /** All of them, which are none from then on. */
  take(): Suspect[] {
    const { suspects } = this
    this.suspects = []
    return suspects
  }
}
