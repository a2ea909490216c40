/** One at a time, in the order of the calls. */
export class Serial {
  private last: Promise<unknown> = Promise.resolve()

  run<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.last.then(job)
    this.last = turn.catch(() => {})
    return turn
  }
}
