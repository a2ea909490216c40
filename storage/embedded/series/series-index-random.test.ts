import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { newIndex, ref } from '../testing/series.ts'
import { NOT_DURABLE, UNKNOWN } from './provisional-series.ts'
import { FIRST_HANDLE, type SeriesIndex } from './series-index.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
/** In which something was wrong. */
const KNOWN = [878685489]
const BUDGET = 60
const MEASUREMENTS = [ref(0, 'a'), ref(1, 'b')]

/** A batch in a decoder's hands: what it has resolved. */
type Open = Map<string, number>
/** A write on its way: what `Admission` and `WritePath` remember of it. */
interface InFlight {
  names: Set<string>
  promoted: number[]
  symbols: number
  last: number
  /** Or series that are given back. */
  released?: { name: string; number: number }[]
}

/** Drives an index as the write path does, beside a plain model of it. */
class Run {
  index: SeriesIndex = newIndex({}, BUDGET)
  /** Series by number, as the log has them; undefined = given back. */
  durable: (string | undefined)[] = []
  /** Which of all batches each is. */
  taken = new Map<Open, number>()
  last = { taken: 0, handles: FIRST_HANDLE }
  live = new Map<string, number>()
  private open: Open[] = []
  private inFlight: InFlight[] = []
  /** What a decoder remembers from batch to batch. */
  private cache: Open = new Map()
  private epoch = -1
  /** Series whose giving back has failed: others may have their room already. */
  private readonly broughtBack = new Set<string>()
  private readonly random: () => number

  constructor(random: () => number) {
    this.random = random
  }

  pick(n: number): number {
    return Math.floor(this.random() * n)
  }

  name(): string {
    const keys = Array.from({ length: this.pick(4) }, () => `k${this.pick(15)}`)
    const tags = [...new Set(keys)].sort().flatMap((key) => [key, `v${this.pick(8)}`])
    return [this.pick(2), ...tags].join(' ')
  }

  /** The number or handle of a series, by text or by bytes; UNKNOWN when the budget is spent. */
  resolve(name: string): number {
    const [measurement, ...tags] = name.split(' ')
    const owner = MEASUREMENTS[Number(measurement)]
    try {
      if (this.random() < 0.5) return this.index.resolve(owner, tags)
      const pairs = Array.from({ length: tags.length / 2 }, (_, i) => tags.slice(i * 2, i * 2 + 2))
      for (let i = pairs.length - 1; i > 0; i--) pairs.push(...pairs.splice(this.pick(i + 1), 1))
      const ranges: number[] = []
      let length = 0
      for (const text of pairs.flat()) {
        ranges.push(length, length + text.length)
        length += text.length
      }
      return this.index.resolveAscii(owner, new TextEncoder().encode(pairs.flat().join('')), Int32Array.from(ranges), pairs.length)
    } catch (error) {
      if ((error as { code: string }).code !== 'CARDINALITY_EXCEEDED') throw error
      return UNKNOWN
    }
  }

  decode(): void {
    if (this.epoch !== this.index.epoch) this.cache = new Map()
    this.epoch = this.index.epoch
    if (this.open.length === 0 || this.random() < 0.3) {
      const batch: Open = new Map()
      this.open.push(batch)
      this.taken.set(batch, this.taken.size)
    }
    const batch = this.open[this.pick(this.open.length)]
    for (let n = this.pick(8); n >= 0; n--) {
      const name = this.name()
      const number = this.cache.get(name) ?? this.resolve(name)
      if (number === UNKNOWN) continue
      batch.set(name, number)
      this.cache.set(name, number)
    }
  }

  /** Admits some rows of a batch, refuses the others. */
  admit(): string | undefined {
    if (this.open.length === 0) return undefined
    const [batch] = this.open.splice(this.pick(this.open.length), 1)
    const write: InFlight = { names: new Set(), promoted: [], symbols: this.index.symbols.count, last: -1 }
    const share = this.random()
    for (const [name, held] of batch) {
      if (this.random() < share) continue
      let number = this.index.numberOf(held)
      if (number === UNKNOWN) return `"${name}" was called in while its batch was open`
      if (number === NOT_DURABLE) {
        const next = this.index.count
        number = this.index.promote(held)
        if (number >= next) write.promoted.push(held)
      }
      const text = [this.index.measurementOf(held), ...this.index.tagsOf(number)].join(' ')
      if (text !== name) return `${held} stands for "${text}" and not for "${name}"`
      write.names.add(name)
      write.last = Math.max(write.last, number)
    }
    if (write.last >= 0) this.inFlight.push(write)
    this.release()
    return undefined
  }

  recycle(): void {
    if (this.open.length > 0) this.open.splice(this.pick(this.open.length), 1)
    this.release()
  }

  commit(): void {
    const write = this.inFlight.shift()
    if (write === undefined) return
    for (const { number } of write.released ?? []) this.durable[number] = undefined
    this.index.publish(write.last)
    for (const name of write.names) {
      if (this.live.has(name)) continue
      const number = this.resolve(name)
      this.live.set(name, number)
      while (this.durable.length < number) this.durable.push(undefined)
      this.durable[number] = name
    }
    this.release()
  }

  fail(): void {
    for (const { promoted, symbols, released } of this.inFlight.splice(0).reverse()) {
      this.index.revoke(promoted, symbols)
      for (const { name, number } of released ?? []) {
        this.index.unrelease(number, Number(name.split(' ')[0]))
        this.live.set(name, number)
        this.broughtBack.add(name)
      }
    }
    this.release()
  }

  /** A delete has emptied some series. */
  giveBack(): void {
    const busy = new Set([...this.inFlight.map(({ names }) => names), ...this.open].flatMap((names) => [...names.keys()]))
    const released = [...this.live].filter(([name]) => !busy.has(name) && this.random() < 0.3).map(([name, number]) => ({ name, number }))
    this.index.release(Int32Array.from(released, ({ number }) => number))
    for (const { name } of released) this.live.delete(name)
    this.inFlight.push({ names: new Set(), promoted: [], symbols: this.index.symbols.count, last: -1, released })
  }

  restart(): void {
    this.open = []
    this.last = { taken: this.taken.size, handles: FIRST_HANDLE }
    this.inFlight = []
    this.live = new Map(this.durable.flatMap((name, number) => (name === undefined ? [] : [[name, number]])))
    this.index = newIndex({}, BUDGET)
    for (const [number, name] of this.durable.entries()) {
      const [measurement, ...tags] = (name ?? '').split(' ')
      if (name === undefined) this.index.restoreReleased()
      else this.index.restore(number, Number(measurement), tags, () => new Map())
    }
    this.index.publish(this.durable.length - 1)
    this.index.tally((id) => MEASUREMENTS[id].namespace)
    this.epoch = -1
  }

  /** What is wrong, if anything is. */
  fault(): string | undefined {
    const { index } = this
    if (index.publishedCount !== this.durable.length) return `${index.publishedCount} numbers are published, ${this.durable.length} durable`
    const limbo = new Set(this.inFlight.flatMap(({ released }) => released?.map(({ number }) => number) ?? []))
    for (const [number, stored] of this.durable.entries()) {
      const name = limbo.has(number) ? undefined : stored
      if (index.isLive(number) !== (name !== undefined)) return `number ${number} of "${name}" is ${index.isLive(number) ? '' : 'not '}live`
      if (name !== undefined && [index.measurementOf(number), ...index.tagsOf(number)].join(' ') !== name) return `number ${number} is not "${name}"`
    }
    const under = new Set(this.inFlight.flatMap(({ names }) => [...names].filter((name) => !this.live.has(name))))
    if (index.live !== this.live.size + under.size) return `${index.live} series are live, not ${this.live.size} and ${under.size}`
    const provisional = new Set(this.open.flatMap((batch) => [...batch.keys()]).filter((name) => !this.live.has(name) && !under.has(name)))
    const counted = index.seriesOf('a') + index.seriesOf('b')
    if (counted > BUDGET + this.broughtBack.size) return `${counted} series are counted`
    if (counted < this.live.size + under.size + provisional.size) return `${counted} series are counted, too few`
    if (this.open.length === 0 && counted !== this.live.size + under.size) return `${counted} series are counted although no batch is open`
    for (const [name, number] of this.live) {
      const found = this.resolve(name)
      // A handle that was given meanwhile may still be found; it will be given the same number.
      if (found !== number && !(this.broughtBack.has(name) && index.numberOf(found) === NOT_DURABLE)) return `"${name}" is not found as ${number}`
    }
    for (const batch of this.open)
      for (const [name, held] of batch) {
        const found = this.resolve(name)
        // It is found under its number again when giving it back has failed; the handle will be given the same.
        if (found === this.live.get(name) && index.numberOf(held) === NOT_DURABLE) continue
        if (found !== held && index.numberOf(found) !== index.numberOf(held)) return `"${name}" is found as ${found}, a batch has ${held}`
        if (found >= FIRST_HANDLE && index.numberOf(found) === UNKNOWN) return `"${name}" is found as ${found}, which stands for nothing`
      }
    // Looking a series up that was brought back may have given it a handle, which belongs to no batch.
    if (this.open.length === 0) this.release()
    return undefined
  }

  private release(): void {
    const { index, open, taken, last } = this
    index.releaseProvisional(open.length === 0)
    if (open.some((batch) => (taken.get(batch) as number) < last.taken)) return
    this.last = { taken: taken.size, handles: index.nextHandle }
    const named = open.map((batch) => ({ tables: [{ rows: batch.size, series: Int32Array.from(batch.values()) }] }))
    if (open.length > 0) index.dropUnnamed(last.handles, named)
  }
}

t.test(`batches, commits, failures, releases and restarts in any order, against a plain model, SVC_SEED=${seed}`, async (t) => {
  for (const own of [...KNOWN, ...Array.from({ length: 30 }, (_, round) => seed + round)]) {
    const run = new Run(seeded(own))
    const steps: string[] = []
    for (let step = 0; step < 150; step++) {
      const n = run.pick(100)
      const what = n < 40 ? 'decode' : n < 62 ? 'admit' : n < 80 ? 'commit' : n < 86 ? 'recycle' : n < 91 ? 'fail' : n < 98 ? 'giveBack' : 'restart'
      steps.push(what)
      const fault = run[what]() ?? run.fault()
      if (fault !== undefined) return t.fail(`SVC_SEED=${own} step ${step}: ${fault}\n${steps.join(' ')}`)
    }
  }
  t.pass('all rounds')
})
