/**
 * What toggles.ts switches beside rollups, triggers and readers of changes, each with data of its own and a model of it: encrypted fields, API keys with policies, runs of
 * agents, and a sink to Kafka, whose broker is mini-broker.ts. What was made while a thing was switched on is there when it is switched on again.
 */
import { fileURLToPath } from 'node:url'
import type { Random } from 'svcdb/lib/random'
import type { MiniBroker } from './mini-broker.ts'
import type { Ask } from './rollup-model.ts'
import type { ServerOptions } from './server.ts'

export type Sections = NonNullable<ServerOptions['sections']>

export interface Switched {
  /** Chooses for the next life. @param keepsChanges whether the log of changes has room for what readers have not read. */
  choose(keepsChanges: boolean): void
  readonly plugins: readonly string[]
  readonly sections: Sections
  /** Looks whether all is there, and does more. @returns what it has done. @throws Error saying what is not as it should be. */
  live(ask: Ask): Promise<string>
  /** What is there now. @returns goes back to it. */
  kept(): () => void
}

/** Of fields that are encrypted in some lives, under one of two keys. */
export class SealedFields implements Switched {
  readonly plugins: readonly string[] = []
  private readonly random: Random
  private key: string | undefined
  private listed = false
  private readonly rows = new Map<number, { note: string; level: number }>()

  constructor(random: Random) {
    this.random = random
    for (const [i, name] of ['SVC_TOGGLES_ONE', 'SVC_TOGGLES_TWO'].entries()) process.env[name] = Buffer.alloc(32, i + 1).toString('base64')
  }

  choose(): void {
    const dice = this.random()
    this.key = dice < 0.35 ? 'one' : dice < 0.6 ? 'two' : undefined
    this.listed = this.key !== undefined || this.random() < 0.5
  }

  /** Keys are needed: what was encrypted is in the log still. */
  list(): void {
    this.listed = true
  }

  get sections(): Sections {
    if (!this.listed) return {}
    const { key } = this
    return {
      'database.field_encryption.keys': { one: 'SVC_TOGGLES_ONE', two: 'SVC_TOGGLES_TWO' },
      ...(key !== undefined && { 'database.field_encryption.columns': { note: key, level: key } }),
    }
  }

  async live(ask: Ask): Promise<string> {
    await this.look(ask)
    const made: string[] = []
    for (let left = Math.floor(this.random() * 20); left > 0; left--) {
      const time = Math.floor(this.random() * 200)
      const row = { note: `n${Math.floor(this.random() * 1e6)}`, level: Math.floor(this.random() * 1000) / 8 }
      this.rows.set(time, row)
      made.push(`safe,host=h${time % 3} note="${row.note}",level=${row.level},open=1i ${time}`)
    }
    if (made.length > 0) await answered(ask('POST', '/write?backfill=true&precision=s', made.join('\n'), true), 204)
    await this.look(ask)
    return `${made.length} rows ${this.key === undefined ? 'in the clear' : `under key ${this.key}`}`
  }

  private async look(ask: Ask): Promise<void> {
    const { status, body } = await ask('POST', '/api/v1/svc/sql', { query: 'SELECT _time, note, level FROM safe ORDER BY _time' })
    if (this.rows.size === 0) return
    if (!this.listed && status === 500 && /"ENCRYPTION_KEY_UNAVAILABLE"/.test(body) && /field_encryption/.test(body)) {
      const { rows } = JSON.parse(await answered(ask('POST', '/api/v1/svc/sql', { query: 'SELECT count(open) FROM safe' }), 200)) as { rows: unknown[][] }
      if (rows[0][0] !== this.rows.size) throw new Error(`${rows[0][0]} rows of safe, not ${this.rows.size}`)
      return
    }
    if (status !== 200) throw new Error(`rows of safe: ${body}`)
    const found = (JSON.parse(body) as { rows: [unknown, string, number][] }).rows.map(([, note, level]) => `${note} ${level}`)
    const wanted = [...this.rows].sort(([a], [b]) => a - b).map(([, { note, level }]) => `${note} ${level}`)
    if (found.join() !== wanted.join()) throw new Error(`rows of safe are ${found.join()}, not ${wanted.join()}`)
  }

  kept(): () => void {
    const rows = [...this.rows]
    return () => {
      this.rows.clear()
      for (const [time, row] of rows) this.rows.set(time, row)
    }
  }
}

const ADMIN = 'svc_toggles-admin-0123456789abcdef'
const READER = 'svc_toggles-reader-0123456789abcde'
const KEYS = '/api/v1/admin/auth/keys'

/** Of API keys, those of the config and those that are made, and of policies about them. */
export class Keys implements Switched {
  private readonly random: Random
  private readonly policies: string
  private on = false
  private governed = false
  /** Where keys are kept: those of the other place let nobody in. */
  private readonly persistent: boolean
  private readonly made = new Map<string, string>()
  private readonly revoked = new Set<string>()
  private count = 0

  /** @param policies a folder with policies by which `reader` reads, and others do anything. */
  constructor(random: Random, policies: string) {
    this.random = random
    this.policies = policies
    this.persistent = random() < 0.5
  }

  choose(): void {
    this.on = this.random() < 0.5
    this.governed = this.on && this.random() < 0.5
  }

  get plugins(): readonly string[] {
    return [...(this.on ? ['api_keys'] : []), ...(this.governed ? ['cedar'] : [])]
  }

  get sections(): Sections {
    if (!this.on) return {}
    return {
      auth: { persistent_api_keys: this.persistent },
      'auth.api_keys': [
        { name: 'admin', key: ADMIN, admin: true },
        { name: 'reader', key: READER },
      ],
      ...(this.governed && { authorization: { policy_dir: this.policies } }),
    }
  }

  get headers(): Record<string, string> {
    return this.on ? { authorization: `Bearer ${ADMIN}` } : {}
  }

  async live(ask: Ask): Promise<string> {
    if (!this.on) return 'open to all'
    await this.expect(ask, READER, this.governed ? 403 : 204)
    const { items } = JSON.parse(await answered(ask('GET', KEYS), 200)) as { items: { name: string; source: string }[] }
    const found = items.flatMap(({ name, source }) => (source === 'config' ? [] : [name])).sort()
    const wanted = [...this.made.keys()].sort()
    if (found.join() !== wanted.join()) throw new Error(`keys are ${found.join()}, not ${wanted.join()}`)
    for (const text of this.made.values()) await this.expect(ask, text, 204)
    for (const text of this.revoked) await this.expect(ask, text, 401)
    if (this.random() < 0.5 && this.made.size < 3) {
      const name = `k${this.count++}`
      const { key } = JSON.parse(await answered(ask('POST', KEYS, { name }), 201)) as { key: string }
      this.made.set(name, key)
      return `key ${name}`
    }
    const [name, text] = [...this.made][0] ?? []
    if (name === undefined || text === undefined || this.random() < 0.5) return 'keys'
    await answered(ask('DELETE', `${KEYS}/${name}`), 204)
    this.made.delete(name)
    this.revoked.add(text)
    return `no key ${name}`
  }

  private async expect(ask: Ask, key: string, wanted: number): Promise<void> {
    const { status, body } = await ask('POST', '/write?backfill=true', 'by_key v=1 1', true, { authorization: `Bearer ${key}` })
    if (status !== wanted) throw new Error(`a write with a key answered ${status}, not ${wanted}: ${body}`)
  }

  kept(): () => void {
    const [made, revoked] = [[...this.made], [...this.revoked]]
    return () => {
      this.made.clear()
      this.revoked.clear()
      for (const [name, text] of made) this.made.set(name, text)
      for (const text of revoked) this.revoked.add(text)
    }
  }
}

const AGENT = fileURLToPath(new URL('./plane-agent.ts', import.meta.url))
const RUNS = '/api/v1/admin/agents/runs'
const PATIENCE_MS = 60_000

/** Of runs of agents, each of which waits until it is told to go on. */
export class Runs implements Switched {
  private readonly random: Random
  private readonly url: string
  private on = false
  /** Whether they were told. */
  private readonly runs = new Map<string, boolean>()

  /** @param url where effects go. */
  constructor(random: Random, url: string) {
    this.random = random
    this.url = url
  }

  choose(): void {
    this.on = this.random() < 0.5
  }

  get plugins(): readonly string[] {
    return this.on ? ['agent_plane', AGENT] : []
  }

  get sections(): Sections {
    return this.on ? { agent_plane: { lease_secs: 2, sweep_interval_secs: 0.2 } } : {}
  }

  async live(ask: Ask): Promise<string> {
    if (!this.on) return 'no agents'
    for (const [run, told] of this.runs) {
      const end = Date.now() + PATIENCE_MS
      for (;;) {
        const { status, reason } = JSON.parse(await answered(ask('GET', `${RUNS}/${run}`), 200)) as { status: string; reason?: string }
        if (told ? status === 'succeeded' : status === 'suspended') break
        if (Date.now() > end || !['running', 'suspended'].includes(status)) throw new Error(`run ${run} is ${status}: ${reason}`)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      const { divergences } = JSON.parse(await answered(ask('GET', `/crash-agent/${run}`), 200)) as { divergences: string[] }
      if (divergences.length > 0) throw new Error(`run ${run} replays otherwise: ${divergences.join('; ')}`)
      if (told || this.random() < 0.5) continue
      await answered(ask('POST', `/crash-agent/${run}/go`, ''), 200)
      this.runs.set(run, true)
    }
    if (this.runs.size > 5) return 'runs'
    const body = { capability: 'crash.work', input: { url: this.url, effects: 2, pauseMs: 20 } }
    const { run } = JSON.parse(await answered(ask('POST', RUNS, body), 202)) as { run: string }
    this.runs.set(run, false)
    return 'a run'
  }

  kept(): () => void {
    const runs = [...this.runs]
    return () => {
      this.runs.clear()
      for (const [run, told] of runs) this.runs.set(run, told)
    }
  }
}

/** Of a sink to Kafka that is there in some lives, with a broker that is there in some of these. */
export class Sink implements Switched {
  private readonly random: Random
  private readonly broker: MiniBroker
  private on = false
  /** Once it was there all is told, or a gap. */
  private began = false
  private readonly due = new Set<number>()
  private count = 0
  private gapsExpected = false
  private keepsChanges = true

  constructor(random: Random, broker: MiniBroker) {
    this.random = random
    this.broker = broker
  }

  choose(keepsChanges: boolean): void {
    this.keepsChanges = keepsChanges
    if (!keepsChanges) this.gapsExpected = true
    this.on = this.random() < 0.5
    this.broker.away = this.random() < 0.4
  }

  get plugins(): readonly string[] {
    return this.on ? ['kafka'] : []
  }

  get sections(): Sections {
    if (!this.on) return {}
    return { 'kafka.sink': [{ name: 'out', brokers: `127.0.0.1:${this.broker.port}`, topic: 'plant', measurements: ['told'], reconnect_ms: 100 }] }
  }

  async live(ask: Ask): Promise<string> {
    if (this.on) {
      await this.until(async () => this.broker.away || (await listedUp(ask)), 'the sink is up')
      if (!this.broker.away) this.began = true
    }
    for (let left = Math.floor(this.random() * 4); left > 0; left--) {
      const n = this.count++
      await answered(ask('POST', '/write?backfill=true', `told n=${n}i ${n + 1}`, true), 204)
      if (this.began) this.due.add(n)
    }
    if (!this.on || this.broker.away) return 'nothing told'
    await this.until(() => this.broker.gaps > 0 || [...this.due].every((n) => this.broker.texts.has(n)), 'all is with the broker')
    const gap = this.broker.gaps > 0
    if (gap && !this.gapsExpected) throw new Error('a gap was told')
    this.broker.gaps = 0
    // What comes after this may be gone before the next life.
    this.gapsExpected = !this.keepsChanges
    this.due.clear()
    return `${this.broker.texts.size} told${gap ? ', and a gap' : ''}`
  }

  private async until(what: () => boolean | Promise<boolean>, why: string): Promise<void> {
    for (const end = Date.now() + PATIENCE_MS; !(await what()); await new Promise((resolve) => setTimeout(resolve, 20)))
      if (Date.now() > end) throw new Error(`it has not happened: ${why}; due are ${[...this.due].join()}`)
  }

  kept(): () => void {
    const [due, began] = [[...this.due], this.began]
    return () => {
      this.due.clear()
      for (const n of due) this.due.add(n)
      this.began = began
      // The log of changes is another one.
      this.gapsExpected = true
    }
  }
}

async function listedUp(ask: Ask): Promise<boolean> {
  const { items } = JSON.parse(await answered(ask('GET', '/api/v1/connectors'), 200)) as { items: { name: string; status: unknown }[] }
  return items.some(({ name, status }) => name === 'out' && (status === 'Idle' || status === 'Running'))
}

async function answered(answer: Promise<{ status: number; body: string }>, wanted: number): Promise<string> {
  const { status, body } = await answer
  if (status !== wanted) throw new Error(`answered ${status}, not ${wanted}: ${body}`)
  return body
}
