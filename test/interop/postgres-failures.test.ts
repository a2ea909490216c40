/**
 * State in PostgreSQL while that fails: restarted, failed over to a standby, without space, cut off. Writers count what they are told; in the end all that was
 * acknowledged is there, nothing that was refused is.
 */
import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { seeded } from '../../kernel/lib/random/index.ts'
import type { PostgresState } from '../../storage/postgres/postgres-state.ts'
import { openState } from '../../storage/postgres/testing.ts'
import { SmallDisk } from '../crash/small-disk.ts'
import { FaultyLink } from '../support/faulty-link.ts'
import { NO_POSTGRES, type PostgresOptions, postgresBin, startPostgres, type TestPostgres } from '../support/postgres.ts'

const skip = postgresBin() === undefined ? NO_POSTGRES : false
const ROUNDS = Number(process.env.SVC_KILLS ?? 4)
const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 1e9))

async function start(t: TestContext, settings: string[] = [], options: PostgresOptions = {}): Promise<TestPostgres> {
  const postgres = await startPostgres(settings, options)
  assert.ok(postgres)
  t.after(() => postgres.stop())
  return postgres
}

/** Several writers, each of which goes on to its next key when it has an answer. */
class Writers {
  readonly acknowledged = new Set<string>()
  readonly refused = new Set<string>()
  readonly codes = new Set<string>()
  private over = false
  private readonly done: Promise<unknown>

  constructor(states: readonly PostgresState[], valueBytes = 20) {
    const text = Array.from({ length: valueBytes / 4 }, () => Math.random().toString(36).slice(2, 6)).join('')
    const write = async (writer: number): Promise<void> => {
      const state = states[writer % states.length].state('one')
      for (let n = 0; !this.over; n++) {
        const key = `k/${writer}/${n}`
        try {
          await state.transaction((tx) => {
            tx.put(key, text + n)
            tx.put(`${key}/beside`, n)
          })
          this.acknowledged.add(key)
        } catch (error) {
          const { code = '', message } = error as { code?: string; message: string }
          assert.ok(code === 'OVERLOADED' || code === 'STORAGE_FULL', message)
          this.codes.add(code)
          if (!/not known/.test(message)) this.refused.add(key)
          await setTimeout(10)
        }
      }
    }
    this.done = Promise.all(Array.from({ length: 6 }, (_, writer) => write(writer)))
    this.done.catch(() => {})
  }

  /** Waits for so many more acknowledgements. */
  async more(count: number): Promise<void> {
    for (const from = this.acknowledged.size; this.acknowledged.size < from + count; ) await Promise.race([setTimeout(10), this.done])
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await Promise.race([setTimeout(10), this.done])
  }

  async check(t: TestContext, state: PostgresState): Promise<void> {
    this.over = true
    await this.done
    const there = new Set((await state.state('one').list({ prefix: 'k/' })).map(({ key }) => key))
    t.diagnostic(`${this.acknowledged.size} acknowledged, ${this.refused.size} refused, ${there.size / 2} there; ${[...this.codes].join(' ')}`)
    const both = (key: string) => [there.has(key), there.has(`${key}/beside`)]
    for (const key of this.acknowledged) assert.deepEqual(both(key), [true, true], `${key} was acknowledged`)
    for (const key of this.refused) assert.deepEqual(both(key), [false, false], `${key} was refused`)
    for (const key of there) assert.ok(there.has(key.endsWith('/beside') ? key.slice(0, -'/beside'.length) : `${key}/beside`), `${key} is half there`)
  }
}

async function open(t: TestContext, url: string, more = {}): Promise<PostgresState> {
  const state = await openState(url, more)
  t.after(() => state.close())
  return state
}

/** What one commits is told to the other, after all that was. */
async function told(from: PostgresState, to: PostgresState): Promise<void> {
  await from.state('watched').watch(['w/'], () => {})
  let end = () => {}
  await new Promise<void>((resolve) => {
    void to
      .state('watched')
      .watch(['w/'], () => resolve())
      .then((ending) => {
        end = ending
        return from.state('watched').transaction((tx) => tx.put('w/1', Math.random()))
      })
  })
  end()
}

test('PostgreSQL restarts: nobody is refused', { skip, timeout: 300_000 }, async (t) => {
  const postgres = await start(t)
  const url = await postgres.database()
  const states = [await open(t, url, { retry_secs: 60 }), await open(t, url, { retry_secs: 60 })]
  const writers = new Writers(states)
  for (let round = 0; round < ROUNDS; round++) {
    await writers.more(50)
    await postgres.restart()
  }
  await writers.more(50)
  await told(states[0], states[1])
  await writers.check(t, states[0])
  assert.equal(writers.refused.size, 0)
})

test('a standby takes over: what was acknowledged is there', { skip, timeout: 300_000 }, async (t) => {
  const primary = await start(t)
  const url = await primary.database()
  const standby = await start(t, [], { of: primary })
  await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`)
  await primary.query('SELECT pg_reload_conf()')
  const both = url.replace(`:${primary.port}`, `:${primary.port},127.0.0.1:${standby.port}`)
  const states = [await open(t, both, { retry_secs: 60 }), await open(t, both, { retry_secs: 60 })]
  const writers = new Writers(states)
  await writers.more(100)
  await primary.kill()
  await setTimeout(500)
  await standby.query('SELECT pg_promote()')
  await writers.more(100)
  await told(states[0], states[1])
  await writers.check(t, states[1])
  assert.equal(writers.refused.size, 0)
})

const mounted = (t: TestContext, mebibytes: number): SmallDisk | undefined => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-small-disk-'))
  // PostgreSQL runs as another user.
  chmodSync(folder, 0o755)
  let disk: SmallDisk | undefined
  t.after(() => {
    disk?.unmount()
    rmSync(folder, { recursive: true, force: true })
  })
  try {
    disk = SmallDisk.mount(join(folder, 'disk'), mebibytes)
  } catch {
    t.skip('mounting is not allowed here')
  }
  return disk
}

test('its tables have no space: 507, and it goes on by itself', { skip, timeout: 300_000 }, async (t) => {
  const disk = mounted(t, 48)
  if (disk === undefined) return
  const postgres = await start(t)
  const { uid, gid } = statSync(postgres.dataDir)
  const folder = join(disk.path, 'tables')
  mkdirSync(folder)
  chownSync(folder, uid, gid)
  await postgres.query(`CREATE TABLESPACE small LOCATION '${folder}'`)
  await postgres.query('CREATE DATABASE small TABLESPACE small')
  const state = await open(t, `postgres://svc@127.0.0.1:${postgres.port}/small`)
  const writers = new Writers([state], 4000)
  for (let round = 0; round < ROUNDS; round++) {
    await writers.more(20)
    disk.fill()
    const before = writers.refused.size
    await writers.until(() => writers.refused.size > before + 20)
    assert.ok((await state.state('one').list({ prefix: 'k/', limit: 10 })).length > 0, 'reads go on')
    disk.release()
  }
  await writers.more(20)
  await writers.check(t, state)
  assert.ok(writers.codes.has('STORAGE_FULL'))
})

test('its whole disk is full, its log too: refused, and all there when it has space again', { skip, timeout: 300_000 }, async (t) => {
  const disk = mounted(t, 160)
  if (disk === undefined) return
  const postgres = await start(t, ['max_wal_size=64MB', 'min_wal_size=32MB'], { within: disk.path })
  const state = await open(t, await postgres.database(), { retry_secs: 1 })
  const writers = new Writers([state], 4000)
  await writers.more(20)
  disk.fill()
  await writers.until(() => writers.refused.size > 20)
  disk.release()
  // It has stopped by itself when its log had no space.
  await postgres.kill()
  await postgres.start()
  await writers.more(20)
  await writers.check(t, state)
})

test('connections are cut, stalled and delayed', { skip, timeout: 300_000 }, async (t) => {
  t.diagnostic(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const postgres = await start(t)
  const url = await postgres.database()
  const link = await FaultyLink.to(postgres.port)
  t.after(() => link.close())
  const failing = await open(t, url.replace(`:${postgres.port}`, `:${link.port}`), { statement_timeout_secs: 1, connect_timeout_secs: 1, retry_secs: 2 })
  const sound = await open(t, url)
  const writers = new Writers([failing])
  for (let round = 0; round < 5 * ROUNDS; round++) {
    const faults = [() => link.cut(), () => link.cut(1 + Math.floor(random() * 10_000)), () => link.stall(), () => link.delay(Math.ceil(random() * 200))]
    faults[Math.floor(random() * faults.length)]()
    await setTimeout(random() * 1500)
    link.mend()
    await setTimeout(100)
  }
  await writers.more(50)
  await told(sound, failing)
  await writers.check(t, sound)
})
