/**
 * Kills the server at random moments while rollups are at work, and compares all targets with a model after each life (rollup-model.ts).
 *
 *   node test/crash/rollups.ts [kills] [seed]
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { asks, modelDatabase, modelSection, RollupWorld } from './rollup-model.ts'
import { failure, ServerProcess } from './server.ts'

const READY_LIMIT_MS = 60_000
const MAX_STEPS = 8

export async function killRollups(kills: number, seed: number, log: (line: string) => void): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-rollups-'))
  const world = new RollupWorld(seed)
  const start = async (): Promise<ServerProcess> => {
    const sections = { rollups: modelSection }
    const server = await ServerProcess.spawn({
      folder,
      engine: 'embedded',
      sql: true,
      plugins: ['rollups'],
      database: { ...modelDatabase, warm_up_ms: 0, maintenance_interval_secs: 1 },
      sections,
    })
    await server.ready(READY_LIMIT_MS)
    return server
  }
  let server = await start()
  const ask = asks(() => server.url)
  try {
    await world.begin(ask)
    for (let life = 0; life < kills; life++) {
      const done: string[] = []
      for (let left = 1 + Math.floor(world.random() * MAX_STEPS); left > 0; left--) {
        done.push(await world.step(ask))
        if (world.random() < 0.2) await world.settled(ask)
      }
      // Anywhere in a pass: slices take some milliseconds.
      await setTimeout(world.random() * 60)
      await server.end('SIGKILL')
      server = await start()
      log(`life ${life}: ${done.join(', ')}`)
      await world.settled(ask)
    }
  } catch (error) {
    throw failure(`seed ${seed}`, error, server)
  } finally {
    if (server.running) await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const [kills = '100', seed = String(Date.now() % 1e9)] = process.argv.slice(2)
  process.stdout.write(`seed ${seed}\n`)
  await killRollups(Number(kills), Number(seed), (line) => process.stdout.write(`${line}\n`))
  process.stdout.write(`${kills} kills: no bucket lost, none wrong, none left behind\n`)
}
