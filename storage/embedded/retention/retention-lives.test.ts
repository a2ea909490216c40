/**
 * Random lives under a configuration that changes: retention on and off, longer and shorter, own periods that come and go, holds, drops, deletes, merges,
 * crashes, a clock that jumps. Against a plain model: what was acknowledged goes when the configuration in force says so, and not before; what went
 * does not come back. `node <this file> <seed>` runs one life alone.
 */
import t from 'tap'
import { limitsOf } from '../../common/limits.ts'
import { admissionCutoffs, measurementCutoff, retentionClock, retentionSettings } from '../../common/retention.ts'
import { rowsOf } from '../testing/harness.ts'
import { Life, runLives } from '../testing/life.ts'

t.setTimeout(600_000)
const LIVES = 2
const STEPS = 40
const HOUR_MS = 3_600_000
const HOUR = 3_600_000_000_000n
const MINUTE = HOUR / 60n
const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n
const limits = limitsOf({})
const NAMES = ['cpu', 'grown', 'brief', 'audit', 'one', 'two']
const FIXED = { maintenance_interval_secs: 3600, compaction_fan_in: 2, soft_delete_ttl_secs: 86_400_000, deleted_rows_rewrite_secs: 0 }

/** Value by host and time. */
type Rows = Map<string, string>

class RetentionLife extends Life {
  private config: Record<string, unknown> = {}
  private held: { measurement: string; from: bigint; release: () => void } | undefined
  // The model.
  private readonly rows = new Map<string, Rows>()
  private readonly dropped = new Set<string>()
  private newest: bigint | undefined
  private written = 0
  removed = 0
  refused = 0

  protected async live(): Promise<void> {
    await this.open(this.randomConfig())
    for (let step = 0; step < STEPS; step++) await this.step()
    await this.open({}, true)
    await this.tidy()
    await this.compare('at the end, without retention')
  }

  private async step(): Promise<void> {
    const { random } = this
    const dice = random.next()
    if (dice < 0.5) await this.write()
    else if (dice < 0.62) {
      this.log.push('flush')
      await this.engine.flush()
      this.expire()
    } else if (dice < 0.74) await this.open(this.randomConfig())
    else if (dice < 0.82) await this.open(random.chance(0.5) ? this.config : this.randomConfig(), true)
    else if (dice < 0.9) {
      this.clock.ms += (random.below(14) - 3) * HOUR_MS
      this.log.push(`clock ${new Date(this.clock.ms).toISOString()}`)
    } else if (dice < 0.93) this.hold()
    else if (dice < 0.97) await this.dropOrRestore()
    else await this.delete()
    if (random.chance(0.6)) await this.tidy()
    if (random.chance(0.5)) await this.compare('after a step')
  }

  private randomConfig(): Record<string, unknown> {
    const { random } = this
    const period = () => random.pick([0, 2, 5, 24, 72]) * 3600
    const retention = Object.fromEntries(NAMES.filter(() => random.chance(0.3)).map((name) => [name, period()]))
    return { retention_secs: random.chance(0.3) ? 0 : period(), retention }
  }

  private async open(config: Record<string, unknown>, crash = false): Promise<void> {
    this.log.push(`${crash ? 'crash' : 'restart'} ${JSON.stringify(config)}`)
    this.config = config
    this.held = undefined
    await this.openEngine({ ...FIXED, ...config }, crash)
    // Its first pass has begun.
    await this.tidy()
  }

  private async write(): Promise<void> {
    const { random, engine } = this
    const measurements = random.chance(0.5) ? [random.pick(NAMES)] : NAMES
    const batch = engine.batch('')
    const settings = retentionSettings(this.config, limits)
    const cutoffs = admissionCutoffs(settings, limits, retentionClock(this.clock.ms, [this.newest]))
    let expected = 0
    const done: (() => void)[] = []
    for (const measurement of measurements.filter((name) => !this.dropped.has(name))) {
      const ref = engine.resolver.measurement('', measurement)
      const table = batch.table(ref)
      for (let n = random.below(4); n >= 0; n--) {
        const age = random.chance(0.5) ? BigInt(random.below(120)) : BigInt(random.below(90) * 60)
        const time = ns(this.clock.ms) - age * MINUTE
        const host = random.pick(['a', 'b'])
        const value = this.written++
        const wide = measurement === 'cpu' || (measurement === 'grown' && value > 60)
        const row = table.addRow(engine.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), value)
        table.column('value', 'float64').setF64(row, value)
        if (wide) table.column('w', 'float64').setF64(row, -value)
        if (time < (cutoffs.own(measurement) ?? cutoffs.general).cutoff) {
          this.refused++
          continue
        }
        expected++
        done.push(() => {
          if (this.newest === undefined || time > this.newest) this.newest = time
          const rows = this.rows.get(measurement) ?? new Map<string, string>()
          this.rows.set(measurement, rows)
          const before = rows.get(`${host} ${time}`)?.split(' w=')[1]
          const second = wide ? -value : before
          rows.set(`${host} ${time}`, `value=${value}${second === undefined ? '' : ` w=${second}`}`)
        })
      }
    }
    this.log.push(`write ${expected} to ${measurements.join()}`)
    const result = await engine.write(batch, { backfill: true })
    if (result.written !== expected) throw new Error(`${result.written} rows were admitted, not ${expected}: ${JSON.stringify(result.rejections)}`)
    for (const apply of done) apply()
  }

  private hold(): void {
    const { random } = this
    this.held?.release()
    const [measurement, from] = [random.pick(NAMES), ns(this.clock.ms) - BigInt(random.below(90)) * HOUR]
    this.log.push(`hold ${measurement} from ${from}`)
    this.held = { measurement, from, release: this.engine.holdRetention((_, name) => (name === measurement ? from : undefined)) }
  }

  private async dropOrRestore(): Promise<void> {
    const name = this.random.pick(NAMES)
    if (!this.rows.has(name)) return
    if (this.dropped.delete(name)) {
      this.log.push(`restore ${name}`)
      await this.engine.restore('', name)
    } else {
      this.log.push(`drop ${name}`)
      await this.engine.drop('', name)
      this.dropped.add(name)
    }
  }

  private async delete(): Promise<void> {
    const name = this.random.pick(NAMES)
    if (!this.rows.has(name) || this.dropped.has(name)) return
    const start = ns(this.clock.ms) - BigInt(this.random.below(90)) * HOUR
    const end = start + 4n * HOUR
    this.log.push(`delete ${name} from ${start}`)
    await this.engine.delete({ namespace: '', measurement: name, start, end })
    for (const key of [...this.rows.get(name)!.keys()]) if (timeOf(key) >= start && timeOf(key) < end) this.rows.get(name)!.delete(key)
    await this.tidy()
  }

  private async tidy(): Promise<void> {
    this.log.push('tidy')
    await this.engine.tidy()
    this.expire()
  }

  /** What a pass does, in the model. */
  private expire(): void {
    const clock = retentionClock(this.clock.ms, [this.newest])
    for (const [name, rows] of this.rows) {
      if (this.dropped.has(name)) continue
      const holds = this.held === undefined ? [] : [(_: string, held: string) => (held === this.held?.measurement ? this.held.from : undefined)]
      const cutoff = measurementCutoff(retentionSettings(this.config, limits), limits, clock, '', name, holds)
      for (const key of [...rows.keys()]) {
        if (timeOf(key) >= cutoff) continue
        rows.delete(key)
        this.removed++
      }
    }
  }

  private async compare(when: string): Promise<void> {
    for (const name of NAMES) {
      const found = await rowsOf(this.engine, name)
      const expected = this.dropped.has(name) ? [] : [...(this.rows.get(name) ?? [])].map(([key, value]) => `${key} ${value}`).sort()
      this.compareRows(`${when}, ${name}`, found, expected)
    }
  }
}

const timeOf = (key: string): bigint => BigInt(key.split(' ')[1])

t.test('lives under a configuration that changes', async (t) => {
  const lives = await runLives(t, LIVES, (seed) => new RetentionLife(seed))
  const removed = lives.reduce((sum, life) => sum + life.removed, 0)
  const refused = lives.reduce((sum, life) => sum + life.refused, 0)
  t.ok(removed > 0 && refused > 0, `${removed} rows were removed, ${refused} refused`)
})
