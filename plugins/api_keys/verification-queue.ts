/** Few hashes at a time, a bounded number that wait, and no more than half of those from one address. */

interface QueueOptions {
  maxRunning: number
  maxWaiting: number
}

interface Waiting {
  address: string
  start(): void
}

export class VerificationQueue {
  private readonly maxRunning: number
  private readonly maxWaiting: number
  private readonly waiting: Waiting[] = []
  private readonly waitingBy = new Map<string, number>()
  private running = 0

  constructor({ maxRunning, maxWaiting }: QueueOptions) {
    this.maxRunning = maxRunning
    this.maxWaiting = maxWaiting
  }

  get depth(): number {
    return this.waiting.length
  }

  /** @returns undefined when there is no room. */
  run<T>(address: string | undefined, job: () => Promise<T>): Promise<T> | undefined {
    if (this.running < this.maxRunning) {
      this.running++
      return this.finish(job)
    }
    const from = address ?? ''
    const own = this.waitingBy.get(from) ?? 0
    if (this.waiting.length >= this.maxWaiting || own >= Math.ceil(this.maxWaiting / 2)) return undefined
    this.waitingBy.set(from, own + 1)
    return new Promise((resolve) => {
      this.waiting.push({ address: from, start: () => resolve(this.finish(job)) })
    })
  }

  /** Takes over the place that whoever ran before had. */
  private async finish<T>(job: () => Promise<T>): Promise<T> {
    try {
      return await job()
    } finally {
      const next = this.waiting.shift()
      if (next === undefined) this.running--
      else {
        const left = (this.waitingBy.get(next.address) ?? 1) - 1
        if (left === 0) this.waitingBy.delete(next.address)
        else this.waitingBy.set(next.address, left)
        next.start()
      }
    }
  }
}
