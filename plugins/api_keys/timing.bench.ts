/**
 * What a token costs, whether the time of a refusal tells that there is a key with its first characters, and what failing logins do to everybody else.
 * node plugins/api_keys/timing.bench.ts [refusals of each kind] [seconds of failing logins]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { runServer } from '../../test/support/server.ts'
import { makeKey } from './key.ts'
import { lookupOf } from './key-text.ts'
import { Keyring } from './keyring.ts'
import { hashText, matches } from './phc.ts'
import { bareGate, credentialsOf, keyText } from './testing.ts'

const refusals = Number(process.argv[2] ?? 200)
const seconds = Number(process.argv[3] ?? 15)
const FAILURES_PER_SECOND = 20
const HITS = 500_000

const at = (sorted: readonly number[], quantile: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))]
function show(what: string, times: readonly number[], unit: string): void {
  const sorted = [...times].sort((a, b) => a - b)
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((quantile) => at(sorted, quantile).toFixed(2).padStart(8))
  console.log(`${what.padEnd(44)} p50 ${p50} p90 ${p90} p99 ${p99} mean ${mean.toFixed(2).padStart(8)} ${unit}`)
}

const load = () => `load average ${loadavg()[0].toFixed(2)}`
console.log(load())
const keyring = new Keyring()
const { gate, registry } = bareGate({ keyring, matches }, () => performance.now())
const [hashed, plain] = [keyText(), keyText()]
const common = { source: 'runtime', namespaces: [], admin: false, roles: [], enabled: true } as const
keyring.add(makeKey({ ...common, id: 'hashed', name: 'hashed', phc: await hashText(hashed), lookup: lookupOf(hashed) }))
keyring.add(makeKey({ ...common, id: 'plain', name: 'plain' }), keyring.digestOf(plain))

const known = (text: string): string => text.slice(0, 12) + keyText().slice(12)
const kinds: Record<string, () => string> = {
  'no key with these first characters': () => keyText(),
  'a key has them, the rest is wrong': () => known(hashed),
  'a plain key of the config has them': () => known(plain),
}
const times = new Map(Object.keys(kinds).map((kind) => [kind, [] as number[]]))
// In turns, so that whatever else the machine does falls on all alike.
for (let i = 0; i < refusals; i++) {
  for (const [kind, make] of Object.entries(kinds)) {
    const credentials = credentialsOf(`Bearer ${make()}`)
    const began = performance.now()
    await gate.authenticate(credentials)
    times.get(kind)?.push(performance.now() - began)
  }
}
for (const [kind, each] of times) show(kind, each, 'ms')

for (const [what, token] of Object.entries({ 'a key that was verified': hashed, 'a plain key of the config': plain })) {
  const credentials = credentialsOf(`Bearer ${token}`)
  await gate.authenticate(credentials)
  for (let i = 0; i < 20_000; i++) gate.authenticate(credentials)
  const began = performance.now()
  for (let i = 0; i < HITS; i++) gate.authenticate(credentials)
  console.log(`${what.padEnd(44)} ${(((performance.now() - began) / HITS) * 1e6).toFixed(0).padStart(12)} ns a call, known without a hash`)
}
registry.close()

const folder = await mkdtemp(join(tmpdir(), 'svc-timing-'))
const admin = keyText()
const config = join(folder, 'svc.toml')
await writeFile(config, `plugins = ["api_keys", "line_protocol"]\n[[auth.api_keys]]\nname = "root"\nkey = "${admin}"\nadmin = true\n`)
const server = await runServer(config)
const headers = { authorization: `Bearer ${admin}` }

/** The p99 of the main loop's delay since it was asked for last, ms. */
async function loopDelay(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers })).text()
  return Number(/main_loop_delay_seconds\{quantile="0\.99"\} (\S+)/.exec(text)?.[1]) * 1000
}

/** Synced writes one after the other, for as long as `while` says; each one's time, ms. */
async function writes(until: number): Promise<number[]> {
  const taken: number[] = []
  for (let i = 0; performance.now() < until; i++) {
    const began = performance.now()
    const answer = await fetch(`${server.url}/write`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'text/plain' },
      body: `m,host=h${i % 100} v=${i}`,
    })
    await answer.arrayBuffer()
    if (answer.status !== 204) throw new Error(`a write was answered with ${answer.status}`)
    taken.push(performance.now() - began)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return taken
}

try {
  for (const failing of [0, FAILURES_PER_SECOND]) {
    await loopDelay()
    const statuses = new Map<number, number>()
    const logins: Promise<void>[] = []
    const timer =
      failing === 0
        ? undefined
        : setInterval(() => {
            const one = fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${keyText()}` } }).then(async (answer) => {
              await answer.arrayBuffer()
              statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
            })
            logins.push(one)
          }, 1000 / failing)
    const taken = await writes(performance.now() + seconds * 1000)
    clearInterval(timer)
    const delay = await loopDelay()
    await Promise.all(logins)
    show(`synced writes, ${failing} failing logins a second`, taken, 'ms')
    console.log(`${''.padEnd(44)} main loop delay p99 ${delay.toFixed(2)} ms; logins ${JSON.stringify(Object.fromEntries(statuses))}; ${load()}`)
  }
} finally {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}
