/**
 * Starts a server again and again with other plugins and settings, ended by kills and by stops, while points of a measurement with rollups are written, deleted, dropped
 * and restored: also while the plugin rollups, or what reads the change stream, is not selected. All that was acknowledged is there after each start. Where rollups are
 * selected, all targets come to be what a model computes from all raw points (rollup-model.ts); triggers and rollups are those that were made. Now and then a backup is
 * made, while they are at work, and restored, also for a server with other plugins, and more than once.
 *
 *   node test/crash/toggles.ts [lives] [seed]
 */
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Ask, asks, modelDatabase, modelSection, RollupWorld } from './rollup-model.ts'
import { failure, ServerProcess } from './server.ts'

const READY_LIMIT_MS = 60_000
const MAX_STEPS = 6

export async function togglePlugins(lives: number, seed: number, log: (line: string) => void): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-toggles-'))
  const world = new RollupWorld(seed)
  const { random } = world
  const triggers = new Set<string>()
  let plugins: string[] = []
  let settings: Record<string, number> = {}
  const start = async (): Promise<ServerProcess> => {
    const server = await ServerProcess.spawn({
      folder,
      engine: 'embedded',
      sql: true,
      plugins: [...plugins, 'backup'],
      database: { ...modelDatabase, maintenance_interval_secs: 1, ...settings },
      sections: {
        ...(plugins.includes('rollups') && { rollups: modelSection }),
        ...(plugins.includes('triggers') && { triggers: {} }),
      },
    })
    await server.ready(READY_LIMIT_MS)
    return server
  }
  const choose = (life: number): void => {
    plugins = ['rollups', 'triggers', 'cdc', 'namespaces', 'export', 'analytics'].filter(() => life === 0 || random() < 0.55)
    settings = {
      wal_max_file_size: random() < 0.5 ? 65_536 : 1_048_576,
      ...(random() < 0.5 && { cdc_log_size: random() < 0.5 ? 0 : 100_000 }),
    }
  }
  choose(0)
  settings = {}
  let server = await start()
  const askServer = asks(() => server.url)
  const ask: Ask = async (method, path, body, text = false) => {
    // A refresh by who has no rollups.
    if (path.startsWith('/api/v1/rollups/') && !plugins.includes('rollups')) return { status: 200, body: '' }
    return askServer(method, path, body, text)
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
      now = `life ${life}: ${plugins.join()} ${JSON.stringify(settings)}`
      await world.whole(ask)
      if (plugins.includes('rollups') && random() < 0.7) await world.settled(ask)
      await lookAtTriggers()
      for (let left = 1 + Math.floor(random() * MAX_STEPS); left > 0; left--) {
        done.push(await world.step(ask))
        if (plugins.includes('rollups') && random() < 0.2) await world.settled(ask)
      }
      await setTimeout(random() * 60)
      if (random() < 0.2) {
        await admin('backup', { target_dir: 'one' })
        const [back, made] = [world.kept(), [...triggers]]
        goBack = () => {
          back()
          triggers.clear()
          for (const name of made) triggers.add(name)
        }
        done.push('a backup')
      }
      const restores = goBack !== undefined && random() < 0.2
      if (restores) await admin('restore', { backup_dir: 'one', target_dir: 'restored' })
      const signal = random() < 0.5 ? 'SIGKILL' : 'SIGTERM'
      await server.end(signal)
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
    await rm(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const [lives = '100', seed = String(Date.now() % 1e9)] = process.argv.slice(2)
  process.stdout.write(`seed ${seed}\n`)
  await togglePlugins(Number(lives), Number(seed), (line) => process.stdout.write(`${line}\n`))
  process.stdout.write(`${lives} lives: nothing lost, nothing left behind\n`)
}
