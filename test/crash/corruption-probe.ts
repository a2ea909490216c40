/** A process that opens the data directories it is told of, one after the other, and says what they answer: the opening may end it. */
import { join } from 'node:path'
import { ask, engineOver, type Said } from './probed-data.ts'

export interface Probe {
  folder: string
  what: 'data' | 'backup'
}

export interface Found {
  /** Why the database did not open, or the backup is refused. */
  refused?: string
  said: Said
  log: string[]
}

async function probe({ folder, what }: Probe): Promise<Found> {
  const found: Found = { said: {}, log: [] }
  const engine = engineOver(join(folder, what === 'data' ? 'data' : 'empty'), (line) => found.log.push(line))
  try {
    await engine.open()
    if (what === 'data') found.said = await ask(engine)
    else await engine.backup.verify(join(folder, 'backup'))
  } catch (error) {
    found.refused = (error as Error).message
  }
  try {
    await engine.close()
  } catch (error) {
    found.log.push(`error closing ${(error as Error).message}`)
  }
  return found
}

process.on('message', (message) => {
  void probe(message as Probe).then((found) => process.send?.(found))
})
