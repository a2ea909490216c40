/**
 * Kills a node with many runs of agents under way, again and again, with effects that are requests to a server that counts them. In the end
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
const PATIENCE_MS = 240_000
const AT_ONCE = 32

export interface PlaneReport {
  runs: number
  kills: number
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
  private readonly known = new Set<string>()
  private readonly random: Random
  private readonly server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url as string, 'http://localhost')
    const about = decodeURIComponent(pathname.slice(1))
    if (request.method === 'POST') this.count(about, searchParams.get('key') as string, searchParams.get('once') as string)
    // Some answers come late, so that a process dies before it has them.
    setTimeout(() => response.end(JSON.stringify({ landed: this.landed.get(about) ?? 0 })), this.random() * 30)
  })

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
    const ids = Array.from<string | undefined>({ length: runs })
    const ended = new Set<string>()
    let killed = 0
    const killer = async (): Promise<void> => {
      for (let pause = 1000; killed < kills; pause = 500 + random() * 4000) {
        await sleep(pause)
        if (ended.size === runs || over) return
        await server.end('SIGKILL')
        killed++
        say(`kill ${killed}: ${ended.size} of ${runs} runs have ended, ${counter.attempts.size} attempts`)
        server = await start()
      }
    }
    const driver = async (): Promise<void> => {
      const end = performance.now() + PATIENCE_MS
      while (ended.size < runs) {
        if (performance.now() > end)
          throw new Wrong(`${runs - ended.size} of ${runs} runs have not ended; the first is ${ids.find((id) => id === undefined || !ended.has(id))}`)
        await goOn(server, url, ids, ended)
        await sleep(50)
      }
    }
    await Promise.all([killer(), driver()])
    await judge(server, ids as string[], counter)
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

/** Begins what is not known to have begun, and looks how the others stand. Ends early when the server is gone. */
async function goOn(server: ServerProcess, url: string, ids: (string | undefined)[], ended: Set<string>): Promise<void> {
  const one = async (index: number): Promise<void> => {
    const id = ids[index]
    if (id !== undefined && ended.has(id)) return
    if (id === undefined) {
      const body = JSON.stringify({ capability: 'crash.work', input: { url, effects: EFFECTS }, idempotency_key: `run-${index}` })
      const { run } = (await ask(server, RUNS, { method: 'POST', headers: { 'content-type': 'application/json' }, body }, 202)) as { run: string }
      ids[index] = run
      return
    }
    const { status, reason } = (await ask(server, `${RUNS}/${id}`, {}, 200)) as { status: string; reason?: string }
    if (status === 'succeeded') ended.add(id)
    else if (status !== 'running' && status !== 'suspended') throw new Wrong(`${id} is ${status}: ${reason}`)
  }
  await inParts(
    ids.map((_, index) => index),
    async (index) => {
      try {
        await one(index)
      } catch (error) {
        if (error instanceof Wrong || server.running) throw error
      }
    },
  ).catch((error: unknown) => {
    if (error instanceof Wrong || server.running) throw error
  })
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
