/**
 * Starts a server again and again with other plugins and settings, ended by kills and by stops, while points of a measurement with rollups are written, deleted, dropped
 * and restored: also while the plugin rollups, or what reads the change stream, is not selected. All that was acknowledged is there after each start. Where rollups are
 * selected, all targets come to be what a model computes from all raw points (rollup-model.ts); triggers and rollups are those that were made. Beside them encryption, API
 * keys, policies, agents and a sink to Kafka are switched (switched.ts); a start is refused for want of a key of what is encrypted, and for nothing else. Now and then a
 * backup is made, while they are at work, and restored, also for a server with other plugins, and more than once.
 *
 *   node test/crash/toggles.ts [lives] [seed]
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { MiniBroker } from './mini-broker.ts'
import { type Ask, asks, modelDatabase, modelSection, RollupWorld } from './rollup-model.ts'
import { failure, ServerProcess } from './server.ts'
import { Keys, Runs, SealedFields, Sink, type Switched } from './switched.ts'

const READY_LIMIT_MS = 60_000
/** Longer than a server gives itself. */
const STOP_LIMIT_MS = 120_000
const MAX_STEPS = 6
const POLICIES = `permit(principal, action, resource);
forbid(principal == Svc::User::"reader", action == Svc::Action::"Write", resource);
`

export async function togglePlugins(lives: number, seed: number, log: (line: string) => void): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-toggles-'))
  const world = new RollupWorld(seed)
  const { random } = world
  const triggers = new Set<string>()
  let plugins: string[] = []
  let settings: Record<string, number> = {}
  const closing: (() => void)[] = []
  const policies = join(folder, 'policies')
  await mkdir(policies)
  await writeFile(join(policies, 'all.cedar'), POLICIES)
  const sealed = new SealedFields(random)
  const keys = new Keys(random, policies)
  const switched: Switched[] = [sealed, keys, new Runs(random, await effects(closing)), new Sink(random, await MiniBroker.open(closing))]
  const spawn = async (): Promise<ServerProcess> => {
    const server = await ServerProcess.spawn({
      folder,
      engine: 'embedded',
      sql: true,
      plugins: [...plugins, 'backup', ...switched.flatMap((one) => one.plugins)],
      database: { ...modelDatabase, warm_up_ms: 0, maintenance_interval_secs: 1, ...settings },
      sections: {
        // On a busy machine.
        server: { sql_query_timeout_secs: 240 },
        ...(plugins.includes('rollups') && { rollups: modelSection }),
        ...(plugins.includes('triggers') && { triggers: {} }),
        ...Object.assign({}, ...switched.map((one) => one.sections)),
      },
    })
    await server.ready(READY_LIMIT_MS)
    return server
  }
  const start = async (): Promise<ServerProcess> => {
    try {
      return await spawn()
    } catch (error) {
      // Nothing else may refuse it.
      if (!/cannot decrypt with key "\w+": it is not configured/.test((error as Error).message)) throw error
      log(/cannot [^\n]*/.exec((error as Error).message)?.[0] ?? '')
      sealed.list()
      return spawn()
    }
  }
  const choose = (life: number): void => {
    plugins = ['rollups', 'triggers', 'cdc', 'namespaces', 'export', 'analytics'].filter(() => life === 0 || random() < 0.55)
    settings = {
      wal_max_file_size: random() < 0.5 ? 65_536 : 1_048_576,
      ...(random() < 0.5 && { cdc_log_size: random() < 0.5 ? 0 : 100_000 }),
    }
    for (const one of switched) one.choose(settings.cdc_log_size === undefined)
  }
  choose(0)
  settings = {}
  let server = await start()
  const askServer = asks(() => server.url)
  const ask: Ask = async (method, path, body, text = false, headers = keys.headers) => {
    // A refresh by who has no rollups.
    if (path.startsWith('/api/v1/rollups/') && !plugins.includes('rollups')) return { status: 200, body: '' }
    return askServer(method, path, body, text, headers)
  }
  const lookAtTriggers = async (): Promise<void> => {
    if (!plugins.includes('triggers')) return
    const { triggers: found } = JSON.parse((await ask('GET', '/api/v1/triggers')).body) as { triggers: { name: string }[] }
    const names = found.map(({ name }) => name).sort()
    if (names.join() !== [...triggers].sort().join()) throw new Error(`triggers are ${names.join()}, not ${[...triggers].sort().join()}`)
    if (random() < 0.5) {
      const name = `t${Math.floor(random() * 5)}`
      const query = triggers.has(name) ? `DROP TRIGGER ${name}` : `CREATE TRIGGER ${name} ON cpu WHEN usage > 500`
      const { status, body } = await ask('POST', '/api/v1/triggers', { query })
      if (status !== 200) throw new Error(`${query}: ${body}`)
      if (!triggers.delete(name)) triggers.add(name)
    }
  }
  let now = ''
  let goBack: (() => void) | undefined
  const admin = async (what: string, body: object): Promise<void> => {
    const answer = await ask('POST', `/api/v1/admin/${what}`, body)
    if (answer.status !== 200) throw new Error(`${what}: ${answer.body}`)
  }
  try {
    await world.begin(ask)
    for (let life = 0; life < lives; life++) {
      const done: string[] = []
      now = `life ${life}: ${[...plugins, ...switched.flatMap((one) => one.plugins)].join()} ${JSON.stringify(settings)}`
      await world.whole(ask)
      if (plugins.includes('rollups') && random() < 0.7) await world.settled(ask)
      await lookAtTriggers()
      for (const one of switched) done.push(await one.live(ask))
      for (let left = 1 + Math.floor(random() * MAX_STEPS); left > 0; left--) {
        done.push(await world.step(ask))
        if (plugins.includes('rollups') && random() < 0.2) await world.settled(ask)
      }
      await setTimeout(random() * 60)
      if (random() < 0.2) {
        await admin('backup', { target_dir: 'one' })
        const [backs, made] = [[world, ...switched].map((one) => one.kept()), [...triggers]]
        goBack = () => {
          for (const back of backs) back()
          triggers.clear()
          for (const name of made) triggers.add(name)
        }
        done.push('a backup')
      }
      const restores = goBack !== undefined && random() < 0.2
      if (restores) await admin('restore', { backup_dir: 'one', target_dir: 'restored' })
      const signal = random() < 0.5 ? 'SIGKILL' : 'SIGTERM'
      const code = await server.end(signal, STOP_LIMIT_MS)
      if (code !== 0 && signal === 'SIGTERM') throw new Error(`the server has answered SIGTERM with exit code ${code}`)
      log(`${now}: ${done.join(', ')}; ${signal}`)
      if (restores) {
        const [data, aside] = [join(folder, 'data'), join(folder, 'aside')]
        await rename(join(data, 'backups', 'restored'), aside)
        await rename(join(data, 'backups'), join(aside, 'backups'))
        await rm(data, { recursive: true })
        await rename(aside, data)
        goBack?.()
        log('a restore of the backup')
      }
      choose(life + 1)
      server = await start()
    }
    if (!plugins.includes('rollups')) {
      await server.end('SIGTERM')
      plugins.push('rollups')
      server = await start()
    }
    await world.settled(ask)
  } catch (error) {
    throw failure(`seed ${seed}, ${now}`, error, server)
  } finally {
    if (server.running) await server.end('SIGKILL')
    for (const close of closing) close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Where runs of agents have their effects. @returns its URL. */
async function effects(closing: (() => void)[]): Promise<string> {
  const server = createServer((_, response) => void response.end('{"landed":1}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

if (import.meta.main) {
  const [lives = '100', seed = String(Date.now() % 1e9)] = process.argv.slice(2)
  process.stdout.write(`seed ${seed}\n`)
  await togglePlugins(Number(lives), Number(seed), (line) => process.stdout.write(`${line}\n`))
  process.stdout.write(`${lives} lives: nothing lost, nothing left behind\n`)
}
