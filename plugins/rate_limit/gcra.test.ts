import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { fullBucket, rateOf, remaining, take, waitOf } from './gcra.ts'

/** A token bucket as one would write it down: tokens in units of the interval between two, so that all of it is whole numbers. */
class Model {
  private level: number
  private at: number
  private readonly interval: number
  private readonly most: number

  constructor(interval: number, burst: number, now: number) {
    this.interval = interval
    this.most = burst * interval
    this.level = this.most
    this.at = now
  }

  private fill(now: number): void {
    this.level = Math.min(this.most, this.level + now - this.at)
    this.at = now
  }

  take(now: number): boolean {
    this.fill(now)
    if (this.level < this.interval) return false
    this.level -= this.interval
    return true
  }

  left(now: number): number {
    this.fill(now)
    return Math.floor(this.level / this.interval)
  }

  wait(now: number): number {
    this.fill(now)
    return Math.max(0, this.interval - this.level)
  }
}

t.test('it allows what a token bucket allows', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  let allowed = 0
  let refused = 0
  for (let run = 0; run < 300; run++) {
    const interval = [1, 2, 4, 5, 10, 100, 1000][Math.floor(random() * 7)]
    const rps = 1000 / interval
    const rate = rateOf(rps, Math.floor(rps * (random() * 3)))
    if (rate === undefined) throw new Error('no rate')
    let now = Math.floor(random() * 1e10)
    const model = new Model(interval, rate.burst, now)
    const bucket = fullBucket()
    for (let i = 0; i < 500; i++) {
      if (random() < 0.5) now += Math.floor(random() * interval * (random() < 0.1 ? rate.burst : 3))
      const wait = waitOf(bucket, rate, now)
      const seen = `seed ${seed}, run ${run}, step ${i}`
      if (Math.abs(wait - model.wait(now)) > 0.01) t.fail(`wait ${wait}, not ${model.wait(now)}: ${seen}`)
      const fits = model.take(now)
      if (fits !== (wait === 0)) t.fail(`${fits ? 'refused' : 'allowed'}: ${seen}`)
      if (fits) take(bucket, rate, now)
      if (remaining(bucket, rate, now) !== model.left(now)) t.fail(`${remaining(bucket, rate, now)} left, not ${model.left(now)}: ${seen}`)
      fits ? allowed++ : refused++
    }
  }
  t.ok(allowed > 1000 && refused > 1000, `${allowed} allowed, ${refused} refused`)
})

t.test('0 a second is no limit, and a burst is never below the rate, nor below one', async (t) => {
  t.equal(rateOf(0, 100), undefined)
  t.same(rateOf(100, 0), { rps: 100, burst: 100 })
  t.same(rateOf(100, 200), { rps: 100, burst: 200 })
  t.same(rateOf(0.5, 0), { rps: 0.5, burst: 1 })
})

t.test('a burst is allowed to the last request, whatever the clock says', async (t) => {
  for (const now of [0, 0.1, 12_345.678_9, 1e9 + 1 / 3, 1e12 + 0.7]) {
    for (const [rps, burst] of [
      [3, 7],
      [7, 1000],
      [999, 999],
      [1, 1],
    ]) {
      const rate = { rps, burst }
      const bucket = fullBucket()
      let count = 0
      for (; waitOf(bucket, rate, now) === 0; count++) take(bucket, rate, now)
      t.equal(count, burst, `${rps} a second, at ${now}`)
      t.equal(waitOf(bucket, rate, now + waitOf(bucket, rate, now)), 0)
    }
  }
})

t.test('a rate that changes holds from then on', async (t) => {
  const bucket = fullBucket()
  const slow = { rps: 1, burst: 100 }
  for (let i = 0; i < 100; i++) take(bucket, slow, 0)
  t.equal(waitOf(bucket, slow, 0), 1000)
  const fast = { rps: 1000, burst: 1000 }
  t.equal(waitOf(bucket, fast, 10), 1, 'what was used slowly is not paid for by the faster rate')
  t.equal(remaining(bucket, fast, 510), 500, 'and it fills at the faster one')
  t.equal(waitOf(bucket, slow, 511), 0)
})
