/**
 * Kills a node with many runs of agents under way, again and again, with effects that are requests to a server that counts them. All runs have begun and wait
 * for an event before the first one is told, and the first process dies; they last as long as the kills do. In the end
 * - no attempt of an effect has reached it twice, and each effect has happened once;
 * - every run has succeeded, and its code replays its journal without a difference;
 * - all chains of records are whole.
 *
 *   node test/crash/plane.ts [runs] [kills] [seed]
 */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Random, seeded } from 'svcdb/lib/random'
import { ServerProcess } from './server.ts'

const MAIN = fileURLToPath(new URL('../../kernel/main.ts', import.meta.url))
const AGENT = fileURLToPath(new URL('./plane-agent.ts', import.meta.url))
const RUNS = '/api/v1/admin/agents/runs'
const EFFECTS = 6
const READY_MS = 60_000
/** For anything to happen. */
const PATIENCE_MS = 240_000
/** That a run lasts for each kill, about: the pause before it, and the start after it. */
const KILL_MS = 5000
/** Between two looks at all runs. */
const LOOK_MS = 500
/** Of the number of runs: answers between two kills, at least. */
const DONE = 0.2
/** A late answer of the counter. */
const LATE_MS = 200
const AT_ONCE = 32

export interface PlaneReport {
  runs: number
  kills: number
  /** At the first kill, at the one with the fewest, and at the last one: runs that have begun and whose end nobody knew. */
  underWay: { first: number; fewest: number; last: number }
  /** Requests that had no answer yet when a process was killed. */
  inFlight: number
  /** Runs with an effect that was interrupted so often that a person had to say what became of it. */
  settled: number
  /** Requests that came. */
  attempts: number
  /** Of a kind that was announced, and of which nobody heard. */
  interrupted: number
  seconds: number
}

/** Counts what reaches it: by attempt, and by what it is about. */
class Counter {
  readonly attempts = new Map<string, number>()
  readonly landed = new Map<string, number>()
  /** Requests without an answer, and with one. */
  open = 0
  answered = 0
  private readonly known = new Set<string>()
  private readonly random: Random
  private readonly server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url as string, 'http://localhost')
    const about = decodeURIComponent(pathname.slice(1))
    if (request.method === 'POST') this.count(about, searchParams.get('key') as string, searchParams.get('once') as string)
    this.open++
    response.once('close', () => this.open--)
    response.once('finish', () => this.answered++)
    // Answers come late, so that a process dies before it has them.
    setTimeout(() => response.end(JSON.stringify({ landed: this.landed.get(about) ?? 0 })), this.random() * LATE_MS)
  })

  /** Runs that a person has looked at. */
  readonly settled = new Set<string>()

  /** Keys of attempts of a run that have reached it. */
  reachedOf(run: string): string[] {
    return [...this.attempts.keys()].filter((attempt) => attempt.startsWith(`${run}/`)).map((attempt) => attempt.slice(run.length + 1))
  }

  constructor(random: Random) {
    this.random = random
  }

  private count(about: string, attempt: string, key: string): void {
    this.attempts.set(attempt, (this.attempts.get(attempt) ?? 0) + 1)
    if (this.known.has(key)) return
    this.known.add(key)
    this.landed.set(about, (this.landed.get(about) ?? 0) + 1)
  }

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }
}

/** @throws Error saying what did not hold. */
export async function plane(runs: number, kills: number, seed: number, say: (line: string) => void): Promise<PlaneReport> {
  const random = seeded(seed)
  const began = performance.now()
  const folder = await mkdtemp(join(tmpdir(), 'svc-plane-'))
  const counter = new Counter(random)
  const url = await counter.listen()
  const start = async (): Promise<ServerProcess> => {
    const sections = { agent_plane: { lease_secs: 2, sweep_interval_secs: 0.2, sweep_runs: 1000, max_driving: 1000 } }
    const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, plugins: ['agent_plane', AGENT], sections })
    await server.ready(READY_MS)
    return server
  }
  let server = await start()
  let over = false
  try {
    const all: Runs = { ids: Array.from({ length: runs }), told: new Set(), ended: new Set() }
    const input = { url, effects: EFFECTS, pauseMs: Math.round((kills * KILL_MS) / EFFECTS) }
    let killed = 0
    let inFlight = 0
    const dying = new WeakSet<ServerProcess>()
    const underWay: number[] = []
    const killer = async (): Promise<void> => {
      for (let pause = 1000; killed < kills; pause = 500 + random() * 4000) {
        // Not before something has come to its end since the kill before: an effect that is interrupted ten times is left to a person.
        const before = counter.answered
        await sleep(pause)
        while (counter.answered < before + runs * DONE && all.ended.size < runs && !over) await sleep(20)
        if (all.ended.size === runs || over) return
        underWay.push(runs - all.ended.size)
        inFlight += counter.open
        dying.add(server)
        await server.end('SIGKILL')
        killed++
        say(`kill ${killed}: ${all.ended.size} of ${runs} runs have ended, ${counter.attempts.size} attempts`)
        server = await start()
      }
    }
    const until = async (act: () => Promise<void>, done: () => boolean): Promise<void> => {
      const state = () => [counter.attempts.size, all.ended.size, all.told.size, all.ids.filter(Boolean).length].join()
      let [seen, since] = [state(), performance.now()]
      while (!done()) {
        await act()
        await sleep(LOOK_MS)
        const now = state()
        if (now !== seen) [seen, since] = [now, performance.now()]
        if (performance.now() < since + PATIENCE_MS) continue
        const first = all.ids.find((id) => id === undefined || !all.ended.has(id))
        throw new Wrong(`${runs - all.ended.size} of ${runs} runs have not ended, and nothing happens any more; the first is ${first}`)
      }
    }
    const waiting = new Set<number>()
    await until(
      () => begin(server, input, all, waiting),
      () => waiting.size === runs,
    )
    say(`${runs} runs have begun and wait, ${counter.attempts.size} attempts`)
    await Promise.all([
      killer(),
      until(
        () => goOn(server, all, counter, dying),
        () => all.ended.size === runs,
      ),
    ])
    await judge(server, all.ids as string[], counter)
    await server.end('SIGTERM')
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'plane', 'verify', '--config', join(folder, 'svc.toml')], {
      cwd: folder,
      encoding: 'utf8',
    })
    // Sweeps have journals as well.
    const [, whole = '0'] = /^(\d+) of \1 runs whole/.exec(stdout) ?? []
    if (status !== 0 || Number(whole) < runs) throw new Error(`svc plane verify: ${status} ${stdout}${stderr}`)
    return {
      runs,
      kills: killed,
      underWay: { first: underWay[0] ?? 0, fewest: Math.min(...underWay), last: underWay.at(-1) ?? 0 },
      inFlight,
      settled: counter.settled.size,
      attempts: counter.attempts.size,
      interrupted: counter.attempts.size - counter.landed.size,
      seconds: Math.round((performance.now() - began) / 1000),
    }
  } finally {
    over = true
    if (server.running) await server.end('SIGKILL')
    counter.close()
    await rm(folder, { recursive: true, force: true })
  }
}

interface Runs {
  readonly ids: (string | undefined)[]
  /** Those that are known to have got the event that they wait for. */
  readonly told: Set<string>
  readonly ended: Set<string>
}

/** Begins all, and looks which of them wait. */
async function begin(server: ServerProcess, input: object, { ids }: Runs, waiting: Set<number>): Promise<void> {
  await inParts([...ids.keys()], async (index) => {
    const id = ids[index]
    if (waiting.has(index)) return
    if (id !== undefined) {
      if ((await standing(server, id)) === 'suspended') waiting.add(index)
      return
    }
    const body = JSON.stringify({ capability: 'crash.work', input, idempotency_key: `run-${index}` })
    const { run } = (await ask(server, RUNS, { method: 'POST', headers: { 'content-type': 'application/json' }, body }, 202)) as { run: string }
    ids[index] = run
  })
}

/** Tells those that are not known to have been told, and looks how the others stand. Ends early when the server is gone. */
async function goOn(server: ServerProcess, { ids, told, ended }: Runs, counter: Counter, dying: WeakSet<ServerProcess>): Promise<void> {
  const one = async (id: string): Promise<void> => {
    if (ended.has(id)) return
    if (!told.has(id)) {
      await ask(server, `/crash-agent/${id}/go`, { method: 'POST' }, 200)
      told.add(id)
    } else if ((await standing(server, id, counter)) === 'succeeded') ended.add(id)
  }
  await inParts(ids as string[], one).catch((error: unknown) => {
    // Its connections may be gone before its end is known.
    if (error instanceof Wrong || !dying.has(server)) throw error
  })
}

/** @throws Wrong where it is none that comes before success. */
async function standing(server: ServerProcess, id: string, counter?: Counter): Promise<string> {
  const { status, reason } = (await ask(server, `${RUNS}/${id}`, {}, 200)) as { status: string; reason?: string }
  if (status === 'quarantined' && counter !== undefined) {
    // An effect that was interrupted ten times is left to a person, who sees what the counter has.
    const body = JSON.stringify({ reached: counter.reachedOf(id) })
    await ask(server, `/crash-agent/${id}/settle`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }, 200)
    counter.settled.add(id)
    return 'running'
  }
  if (!['running', 'suspended', 'succeeded'].includes(status)) throw new Wrong(`${id} is ${status}: ${reason}`)
  return status
}

class Wrong extends Error {}

async function ask(server: ServerProcess, path: string, init: RequestInit, wanted: number): Promise<unknown> {
  let answer: Response
  try {
    answer = await fetch(`${server.url}${path}`, { ...init, signal: AbortSignal.timeout(READY_MS) })
  } catch (error) {
    // A process that is being killed is still there for a moment.
    await sleep(200)
    throw error
  }
  const text = await answer.text()
  if (answer.status !== wanted) throw new Wrong(`${path} answered ${answer.status}: ${text}`)
  return JSON.parse(text)
}

async function inParts<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await act(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function judge(server: ServerProcess, ids: readonly string[], { attempts, landed }: Counter): Promise<void> {
  if (new Set(ids).size !== ids.length) throw new Wrong('two keys have led to one run')
  for (const [attempt, count] of attempts) if (count !== 1) throw new Wrong(`attempt ${attempt} was made ${count} times`)
  for (const id of ids)
    for (let n = 0; n < EFFECTS; n++) {
      const count = landed.get(`${id}/${n}`) ?? 0
      if (count !== 1) throw new Wrong(`effect ${n} of ${id} has happened ${count} times`)
    }
  await inParts(ids, async (id) => {
    const { divergences } = (await ask(server, `/crash-agent/${id}`, {}, 200)) as { divergences: string[] }
    if (divergences.length > 0) throw new Wrong(`${id} replays otherwise: ${divergences.join('; ')}`)
  })
}

if (import.meta.main) {
  const [runs = 1000, kills = 20, seed = Date.now() % 1e9] = process.argv.slice(2).map(Number)
  console.log(`seed ${seed}`)
  console.log(JSON.stringify(await plane(runs, kills, seed, console.log)))
}
