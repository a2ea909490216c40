/**
 * Readers of changes over restarts, crashes and log files that go. SVC_SEED=<n> runs a single seed, SVC_SEEDS=<n> that many, SVC_STEPS=<n> operations in each.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { changeLifeRules, changeRules } from '../../conformance/changes.ts'
import { dropConfig } from '../../conformance/drops.ts'
import { copyOf, follow, type Told, textOf } from '../../conformance/follow.ts'
import { EVENTS, lifeOf } from '../../conformance/life.ts'
import { f64, NOW, NOW_MS, type TestPoint, write } from '../../conformance/points.ts'
import { type Ending, embedded, RESTLESS } from '../testing/conformance-engine.ts'
import { closeAndRemove, openEngine, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(600_000)
/** An engine's own timers keep no process alive that waits for a sync. */
const alive = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(alive))
const FIRST_SEED = 60_004
const PATIENCE_MS = 60_000

const SETTINGS: [string, Record<string, unknown>][] = [
  ['as it is', {}],
  ['with nothing in memory', { cdc_capacity: 16, ...RESTLESS }],
  ['when answers come before the disk', { wal_fsync_policy: 'periodic_20' }],
]
for (const [name, settings] of SETTINGS)
  t.test(`the rules, ${name}`, async (t) => {
    for (const ending of ['closed', 'crashed'] as const)
      for (const [rule, body] of changeLifeRules)
        for (const event of EVENTS)
          await t.test(`${rule} (${event}, ${ending})`, async (t) => {
            const clock = { ms: NOW_MS }
            const subject = await embedded(settings, ending)(dropConfig, () => clock.ms)
            await body(t, lifeOf(subject, clock, event)).finally(() => subject.dispose())
          })
    for (const [rule, body] of changeRules)
      await t.test(rule, async (t) => {
        const subject = await embedded(settings, 'closed')({}, () => NOW_MS)
        await body(t, subject.engine).finally(() => subject.dispose())
      })
  })

/** One operation, and the changes that it must be told as, in any order. */
type Operation = string[]

t.test('readers that come and go, over lives', async (t) => {
  const { SVC_SEED, SVC_SEEDS, SVC_STEPS } = process.env
  const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS ?? 2) }, (_, i) => FIRST_SEED + i) : [Number(SVC_SEED)]
  const sum: Counts = { changes: 0, readers: 0, read: 0, gaps: 0, missed: 0, empty: 0 }
  for (const seed of seeds)
    await t.test(`SVC_SEED=${seed}`, async (t) => {
      const counts = await lives(t, seed, Number(SVC_STEPS ?? 80))
      for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name]
    })
  t.comment(`${seeds.length} seeds: ${JSON.stringify(sum)}`)
  if (SVC_SEED === undefined) t.ok(sum.gaps > 0 && sum.read > 0, 'some was told, and some was missed and told so')
})

interface Counts {
  changes: number
  readers: number
  /** Changes that readers were told. */
  read: number
  gaps: number
  /** Changes that lay in gaps. */
  missed: number
  empty: number
}

interface Reader {
  /** Changes that it was told of, or knows to have missed. */
  at: number
  position: string
  gaps: number
  missed: number
  /** Gaps in which nothing lay: the files that would tell so are gone. */
  empty: number
  read: number
}

async function lives(t: Test, seed: number, steps: number): Promise<Counts> {
  const random = seeded(seed)
  const pick = (n: number): number => Math.floor(random() * n)
  const ending: Ending = random() < 0.5 ? 'crashed' : 'closed'
  const settings = {
    ...RESTLESS,
    // Where the log is short, memory holds what one step writes: the witness misses nothing.
    ...(random() < 0.7 ? { cdc_capacity: 4096, cdc_log_size: [0, 65_536][pick(2)] } : { cdc_capacity: [16, 64, 65_536][pick(3)], cdc_log_size: 1 << 30 }),
    wal_fsync_policy: ['per_batch', 'per_batch', 'periodic_10'][pick(3)],
  }
  const subject = await embedded(settings, ending)({ soft_delete_ttl_secs: 86_400 }, () => NOW_MS)
  /** All changes so far, in the order in which the witness, who never stays away, is told. */
  const all: Told[] = []
  const texts: string[] = []
  const readers: Reader[] = []
  const witness = { position: '', told: [] as Told[] }
  let cursor = subject.engine.changes()
  witness.position = await cursor.position()
  const first = witness.position
  let clock = 0n
  const live = new Set<string>()
  const dropped: string[] = []

  /** Reads what must come, and compares it with what was done. */
  const witnessed = async (operations: readonly Operation[]): Promise<void> => {
    for (const operation of operations) {
      const told: Told[] = []
      while (textOf(told).length < operation.length) {
        const { value } = await soon(cursor.next(), () => `the witness waits for ${operation.join('; ')}`)
        if (value === undefined) throw new Error('the witness has ended')
        // Where the files went that had nothing to tell, nobody knows that any more. Had they something, it would wait for that in vain.
        if (value.kind === 'gap') continue
        told.push(copyOf(value))
      }
      t.same(textOf(told).sort(), [...operation].sort())
      for (const change of told) {
        if (all.length > 0 && change.position <= (all.at(-1) as Told).position) t.fail('a place does not rise')
        all.push(change)
        texts.push(textOf([change]).join('\n'))
      }
    }
    witness.position = await cursor.position()
  }

  const point = (): [TestPoint, string] => {
    const measurement = `m${pick(6)}`
    const time = NOW + ++clock
    const host = `h${pick(5)}`
    const shared = measurement < 'm3'
    const values: Record<string, number> = shared ? { value: pick(100) } : { v: pick(100), ...(random() < 0.5 ? { w: pick(9) } : {}) }
    const fields = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, f64(value)]))
    const text = Object.entries(values)
      .map(([name, value]) => `${name}=${value}`)
      .join(' ')
    live.add(measurement)
    return [{ measurement, tags: { host }, time, fields, ...(shared ? { mixed: true } : {}) }, `default/${measurement} {"host":"${host}"} ${time} ${text}`]
  }

  const readOn = async (reader: Reader): Promise<void> => {
    const own = subject.engine.changes({ after: reader.position })
    const wanted = 1 + pick(60)
    for (let n = 0; n < wanted && reader.at < all.length; n++) {
      const { value } = await soon(own.next(), () => `a reader at ${reader.at} of ${all.length} waits for ${texts[reader.at]}`)
      if (value === undefined) throw new Error('the reader has ended')
      if (value.kind === 'gap') {
        t.equal(value.cause, 'expired')
        t.equal(value.from, reader.position, 'a gap begins where the reader was')
        const behind = all.findIndex(({ position }) => position > value.to)
        const next = behind === -1 ? all.length : behind
        if (next <= reader.at) reader.empty++
        else {
          // It is no wider than what is gone: the last change in it cannot be told to one who lacks that only.
          const near = subject.engine.changes({ after: next === 1 ? first : all[next - 2].position })
          const { value: same } = await soon(near.next(), () => `a reader before the end of a gap, ${value.to}`)
          near.close()
          if (same?.kind !== 'gap' || same.to < value.to) {
            const told = same === undefined ? 'nothing' : textOf([copyOf(same)])
            throw new Error(
              `a gap up to ${value.to}, and who lacks ${texts[next - 1]} only is told ${told}; settings ${JSON.stringify({ ...settings, ending })}`,
            )
          }
          reader.missed += next - reader.at
          reader.at = next
          reader.gaps++
        }
      } else {
        const text = textOf([copyOf(value)]).join('\n')
        if (text !== texts[reader.at] || value.position < reader.position)
          throw new Error(`change ${reader.at} should be ${texts[reader.at]} and is ${text}; settings ${JSON.stringify({ ...settings, ending })}`)
        reader.at++
        reader.read++
      }
      reader.position = value.position
    }
    if (random() < 0.3) reader.position = await own.position()
    own.close()
  }

  try {
    for (let step = 0; step < steps; step++) {
      const { engine } = subject
      const what = pick(100)
      if (what < 45) {
        const operations: Operation[] = []
        const writes: Promise<unknown>[] = []
        for (let n = 1 + pick(8); n > 0; n--) {
          const points = Array.from({ length: 1 + pick(random() < 0.2 ? 400 : 12) }, point)
          const backfill = random() < 0.2
          operations.push(points.map(([, text]) => text))
          writes.push(
            write(
              engine,
              points.map(([p]) => p),
              { backfill },
            ),
          )
        }
        await Promise.all(writes)
        await witnessed(operations)
      } else if (what < 55 && live.size > 0) {
        const measurement = [...live][pick(live.size)]
        const host = `h${pick(5)}`
        const { series } = await engine.delete({ namespace: 'default', measurement, matchers: [{ tag: 'host', op: '=', value: host }] })
        if (series > 0) await witnessed([[`series_deleted default/${measurement} .. {"host":"${host}"}`]])
      } else if (what < 60 && live.size > 0) {
        const measurement = [...live][pick(live.size)]
        await engine.drop('default', measurement)
        live.delete(measurement)
        dropped.push(measurement)
        await witnessed([[`measurement_dropped default/${measurement}`]])
      } else if (what < 64 && dropped.length > 0) {
        const measurement = dropped.pop() as string
        if (live.has(measurement)) continue
        await engine.restore('default', measurement)
        live.add(measurement)
        await witnessed([[`measurement_restored default/${measurement}`]])
      } else if (what < 70) await engine.flush()
      else if (what < 76) {
        cursor.close()
        const reopened = await subject.reopen?.()
        if (reopened === undefined) throw new Error('it cannot be opened again')
        cursor = reopened.changes({ after: witness.position })
      } else if (what < 82 || readers.length === 0) {
        const at = pick(all.length + 1)
        readers.push({ at, position: at === 0 ? first : all[at - 1].position, gaps: 0, missed: 0, empty: 0, read: 0 })
      } else await readOn(readers[pick(readers.length)])
    }
    for (const reader of readers) while (reader.at < all.length) await readOn(reader)
    const sum = (of: (reader: Reader) => number): number => readers.reduce((total, reader) => total + of(reader), 0)
    const counts = {
      ...{ changes: all.length, readers: readers.length, read: sum((r) => r.read) },
      ...{ gaps: sum((r) => r.gaps), missed: sum((r) => r.missed), empty: sum((r) => r.empty) },
    }
    t.ok(all.length > 0, `${JSON.stringify(counts)}, cdc_log_size ${settings.cdc_log_size}`)
    return counts
  } finally {
    cursor.close()
    await subject.dispose()
  }
}

async function soon<T>(promise: Promise<T>, what: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(what())), PATIENCE_MS)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

t.test('a fault in a file of the log is a gap, and what lies behind the file is told', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, {})
  t.teardown(() => closeAndRemove(engine, dir))
  const cursor = engine.changes()
  const after = await cursor.position()
  for (let i = 0; i < 3; i++) await writeFloat(engine, 'm', 'a', NOW + BigInt(i), { v: i, w: i })
  await engine.flush()
  await writeFloat(engine, 'm', 'a', NOW + 3n, { v: 3, w: 3 })
  await engine.flush()
  cursor.close()
  const [first] = readdirSync(join(dir, 'wal')).sort()
  const path = join(dir, 'wal', first)
  const bytes = readFileSync(path)
  bytes[bytes.length - 3] ^= 4
  writeFileSync(path, bytes)
  const follower = follow(engine, { after })
  await follower.until(4)
  const told = await follower.stop()
  const values = told.map((change) => (change.kind === 'rows' ? String(change.rows[0].fields[0].value) : change.kind === 'gap' ? change.cause : change.kind))
  t.same(values, ['0', '1', 'damaged', '3'])
})

t.test('log files stay for readers within their bounds only', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { cdc_log_size: 200_000, wal_max_file_size: 65_536, wal_max_unflushed: 1 })
  t.teardown(() => closeAndRemove(engine, dir))
  const kept = (): number => readdirSync(join(dir, 'wal')).reduce((sum, name) => sum + statSync(join(dir, 'wal', name)).size, 0)
  const fill = async (): Promise<void> => {
    for (let i = 0; i < 40; i++)
      await write(
        engine,
        Array.from({ length: 500 }, (_, n) => ({
          measurement: 'm',
          tags: { n: String(n % 7) },
          time: NOW + BigInt(i * 500 + n),
          fields: { v: f64(Math.random()), w: f64(n) },
        })),
      )
    await engine.flush()
  }
  await fill()
  t.ok(kept() < 10_000, 'nobody reads, and nothing is kept')
  const cursor = engine.changes()
  await fill()
  t.ok(kept() > 60_000 && kept() < 300_000, `${kept()} bytes are kept for a reader that has not come`)
  cursor.close()
})
