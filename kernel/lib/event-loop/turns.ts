/**
 * Work that may be long, done in turns of the event loop. It is a generator that yields wherever it may be interrupted, at least once for each few
 * hundred microseconds of work; when it has held the loop for TURN_MS, the others get their turn.
 *
 * Of all that wait for their next turn, one goes on in each: however many requests are being read, the loop is held by one of them at a time. The bound is
 * a time and not a count, since what a row costs lies a hundred times apart (a known series, a new measurement).
 */

/** Half of what is left of 50 ms once a slow yield, the admission of the batch or a collection of garbage comes on top. */
const TURN_MS = 10

export type Work<T> = Generator<void, T, void>

const waiting: (() => void)[] = []

/** Resolves in a turn of its own, behind those that wait already. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(advance)
  })
}

function advance(): void {
  const resolve = waiting.shift()
  if (waiting.length > 0) setImmediate(advance)
  resolve?.()
}

/**
 * Does work, at once as far as it comes in one turn. @param ended asked before each further turn: why nobody wants the result any more. The work is then
 * given up; its `finally` blocks run.
 */
export function inTurns<T>(work: Work<T>, ended?: () => Error | undefined): T | Promise<T> {
  const step = oneTurn(work)
  return step.done === true ? step.value : further(work, ended)
}

async function further<T>(work: Work<T>, ended: (() => Error | undefined) | undefined): Promise<T> {
  for (;;) {
    await nextTurn()
    const reason = ended?.()
    if (reason !== undefined) {
      work.return(undefined as T)
      throw reason
    }
    const step = oneTurn(work)
    if (step.done === true) return step.value
  }
}

function oneTurn<T>(work: Work<T>): IteratorResult<void, T> {
  const until = performance.now() + TURN_MS
  for (;;) {
    const step = work.next()
    if (step.done === true || performance.now() >= until) return step
  }
}

/** Does work without interruption: for tests, benches and what is known to be small. */
export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}

/** A decoder keeps what it is at in its members: it reads one request after the other, in order of arrival, each in turns. */
export class OneByOne {
  /** Resolves when all that was begun or waits is done; undefined = nothing is. */
  private last: Promise<void> | undefined

  /** @param begin called when all before it are done. @param ended as of `inTurns`. */
  run<T>(begin: () => Work<T>, ended?: () => Error | undefined): T | Promise<T> {
    const { last } = this
    const result = last === undefined ? inTurns(begin(), ended) : last.then(() => this.begun(begin, ended))
    if (!(result instanceof Promise)) return result
    const done: Promise<void> = result.then(nothing, nothing).then(() => {
      if (this.last === done) this.last = undefined
    })
    this.last = done
    return result
  }

  private begun<T>(begin: () => Work<T>, ended: (() => Error | undefined) | undefined): T | Promise<T> {
    const reason = ended?.()
    if (reason !== undefined) throw reason
    return inTurns(begin(), ended)
  }
}

const nothing = (): void => {}
