/**
 * Random lives with many restarts and series that come and go: late rows, deletes, drops and their undoing, flushes, merges, crashes, a look into the segments at
 * any time, against a plain model. No row that is kept goes with its series; and when only some senders are left, only their series are.
 * `node <this file> <seed>` runs one life alone.
 */
import t from 'tap'
import { limitsOf } from '../../common/limits.ts'
import { measurementCutoff, retentionClock, retentionSettings } from '../../common/retention.ts'
import { rowsOf, writeFloat } from '../testing/harness.ts'
import { learned } from '../testing/learned.ts'
import { Life, runLives } from '../testing/life.ts'

t.setTimeout(600_000)
const LIVES = 2
const PARTS = 2
const STEPS = 14
const HOUR_MS = 3_600_000
const MINUTE = 60_000_000_000n
const HOURS_KEPT = 4
/** Of two fields: a table of its own. Of one: a shared table. The last keeps its rows for ever. */
const NAMES = ['own', 'one', 'two', 'audit']
const limits = limitsOf({})
const CONFIG = {
  ...{ retention_secs: HOURS_KEPT * 3600, retention: { audit: 0 }, compaction_fan_in: 2, maintenance_interval_secs: 3600 },
  ...{ soft_delete_ttl_secs: 86_400_000, deleted_rows_rewrite_secs: 0 },
}
const settings = retentionSettings(CONFIG, limits)
const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n

class RestartLife extends Life {
  // The model: hosts and times of each measurement.
  private readonly rows = new Map(NAMES.map((name) => [name, new Set<string>()]))
  private readonly dropped = new Set<string>()
  private newest: bigint | undefined
  private hosts = 0
  released = 0

  protected async live(): Promise<void> {
    await this.open(false)
    for (let part = 0; part < PARTS; part++) {
      for (let step = 0; step < STEPS; step++) await this.step()
      await this.quiet()
    }
  }

  private async step(): Promise<void> {
    const { random } = this
    const dice = random.next()
    if (dice < 0.4) await this.write()
    else if (dice < 0.5) await this.flush()
    else if (dice < 0.62) await this.open(random.chance(0.3))
    else if (dice < 0.72) await this.delete()
    else if (dice < 0.78) await this.dropOrRestore()
    else {
      this.clock.ms += random.pick([1, 1, 1, 2, 5]) * HOUR_MS
      this.log.push(`clock ${new Date(this.clock.ms).toISOString()}`)
    }
    if (random.chance(0.5)) {
      // Beside what comes next, or before.
      this.log.push('look')
      const beside = async (): Promise<void> => {
        if (random.chance(0.5)) await this.write()
        if (random.chance(0.3)) await this.flush()
      }
      await Promise.all([learned(this.engine), beside()])
      await this.engine.tidy()
      this.expire()
    }
    await this.compare()
  }

  private async open(crash: boolean): Promise<void> {
    this.log.push(crash ? 'crash' : 'restart')
    await this.openEngine(CONFIG, crash)
    await this.engine.tidy()
    this.expire()
  }

  private async write(): Promise<void> {
    const { random } = this
    for (let n = random.below(6); n >= 0; n--) {
      const name = random.pick(NAMES.filter((one) => !this.dropped.has(one)))
      const host = random.chance(0.3) ? `h${this.hosts++}` : random.chance(0.3) ? 'steady' : `h${random.below(Math.max(1, this.hosts))}`
      await this.point(name, host, ns(this.clock.ms) - BigInt(random.below(HOURS_KEPT * 60 + 90)) * MINUTE)
    }
  }

  private async point(name: string, host: string, time: bigint): Promise<void> {
    this.log.push(`write ${name} ${host} ${time}`)
    const { written } = await writeFloat(this.engine, name, host, time, name === 'own' ? { v: 1, w: 2 } : { value: 1 }, { backfill: true })
    if (written === 0) return
    this.rows.get(name)!.add(`${host} ${time}`)
    if (this.newest === undefined || time > this.newest) this.newest = time
  }

  private async flush(): Promise<void> {
    this.log.push('flush')
    await this.engine.flush()
    this.expire()
  }

  private async delete(): Promise<void> {
    const name = this.random.pick(NAMES.filter((one) => !this.dropped.has(one)))
    const rows = this.rows.get(name)!
    const host = `h${this.random.below(Math.max(1, this.hosts))}`
    // Of all time where nothing else would take the series.
    const from = name === 'audit' || this.random.chance(0.5) ? undefined : ns(this.clock.ms) - BigInt(this.random.below(HOURS_KEPT)) * 60n * MINUTE
    this.log.push(`delete ${name} ${host} from ${from}`)
    const request = { namespace: '', measurement: name, matchers: [{ tag: 'host', op: '=' as const, value: host }] }
    await this.engine.delete(from === undefined ? request : { ...request, start: from }).catch((error) => {
      if (error.code !== 'NOT_FOUND') throw error
    })
    for (const row of [...rows]) if (hostOf(row) === host && (from === undefined || timeOf(row) >= from)) rows.delete(row)
  }

  private async dropOrRestore(): Promise<void> {
    const name = this.random.pick(NAMES)
    if (this.rows.get(name)!.size === 0 || (this.dropped.size === 2 && !this.dropped.has(name))) return
    this.log.push(`${this.dropped.has(name) ? 'restore' : 'drop'} ${name}`)
    if (this.dropped.delete(name)) await this.engine.restore('', name)
    else {
      await this.engine.drop('', name)
      this.dropped.add(name)
    }
  }

  /** What a pass does, in the model. */
  private expire(): void {
    const clock = retentionClock(this.clock.ms, [this.newest])
    for (const [name, rows] of this.rows) {
      if (this.dropped.has(name)) continue
      const cutoff = measurementCutoff(settings, limits, clock, '', name, [])
      for (const row of [...rows]) if (timeOf(row) < cutoff) rows.delete(row)
    }
  }

  private async compare(): Promise<void> {
    for (const name of NAMES) {
      const found = (await rowsOf(this.engine, name)).map((row) => row.split(' ').slice(0, 2).join(' '))
      const expected = this.dropped.has(name) ? [] : [...this.rows.get(name)!].sort()
      this.compareRows(name, found, expected)
    }
  }

  /** Restarts all the time while only one sender is left. */
  private async quiet(): Promise<void> {
    this.log.push('quiet')
    for (const name of [...this.dropped]) {
      this.dropped.delete(name)
      await this.engine.restore('', name)
    }
    const before = (await this.engine.usage('')).series
    for (let hour = 0; hour < HOURS_KEPT + 4; hour++) {
      this.clock.ms += HOUR_MS
      for (const name of NAMES.slice(0, 3)) await this.point(name, 'steady', ns(this.clock.ms))
      if (hour % 2 === 0) await this.flush()
      if (this.random.chance(0.6)) await this.open(this.random.chance(0.3))
    }
    // Rows of memtables keep what the start has told.
    await this.flush()
    await this.open(false)
    await learned(this.engine)
    this.expire()
    await this.compare()
    const live = [...this.rows.values()].reduce((sum, rows) => sum + new Set([...rows].map(hostOf)).size, 0)
    const { series } = await this.engine.usage('')
    if (series !== live) throw new Error(`${series} series count, and ${live} have rows`)
    this.released += before - series
  }
}

const hostOf = (row: string): string => row.split(' ')[0]
const timeOf = (row: string): bigint => BigInt(row.split(' ')[1])

t.test('lives of many restarts', async (t) => {
  const lives = await runLives(t, LIVES, (seed) => new RestartLife(seed))
  const released = lives.reduce((sum, life) => sum + life.released, 0)
  t.ok(released > 0, `${released} series were given back while it was quiet`)
})
