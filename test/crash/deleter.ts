/**
 * The client that deletes, drops, restores and writes again (life-model.ts), a process of its own. Its ledger has a line
 * `<connection> begin <operation>` before a request and `<connection> done` after its answer, fsynced before the next request of that
 * connection; `<connection> undone` after an answer that promises nothing was done.
 *
 * Arguments: one JSON object, see DeleterOptions.
 */
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { Random } from '../../storage/conformance/random.ts'
import { CONNECTIONS, Life } from './life-model.ts'

export interface DeleterOptions {
  url: string
  ledger: string
  /** Nanoseconds, as digits. */
  base: string
  seed: number
  /** Milliseconds between requests of a connection. */
  pauseMs: number
  /** The server cannot undo drops. */
  finalDrops: boolean
}

/** The lives as the ledger tells them. @throws Error for an answer that no operation may get. */
export function readLives(file: string, base: bigint): Life[] {
  const lives = Array.from({ length: CONNECTIONS }, (_, connection) => new Life(base, connection))
  for (const line of readFileSync(file, 'utf8').split('\n').slice(0, -1)) {
    const space = line.indexOf(' ')
    lives[Number(line.slice(0, space))].read(line.slice(space + 1))
  }
  return lives
}

if (import.meta.main) await run(JSON.parse(process.argv[2]) as DeleterOptions)

async function run(options: DeleterOptions): Promise<void> {
  const lives = readLives(options.ledger, BigInt(options.base))
  const ledger = openSync(options.ledger, 'a')
  let gone = false
  const connection = async (number: number): Promise<void> => {
    const random = new Random(options.seed + number)
    const life = lives[number]
    const note = (line: string): void => {
      life.read(line)
      writeSync(ledger, `${number} ${line}\n`)
    }
    while (!gone) {
      const operation = life.choose(random, options.finalDrops)
      note(`begin ${JSON.stringify(operation)}`)
      const { method, path, type, body, status } = life.call(operation)
      try {
        const answer = await fetch(options.url + path, { method, body, ...(type === undefined ? {} : { headers: { 'content-type': type } }) })
        const said = await answer.text()
        // The measurement may have no points yet.
        const nothing = answer.status === 404 && operation.kind.startsWith('delete')
        if (answer.status === status || nothing) {
          note('done')
          fdatasyncSync(ledger)
        } else if (answer.status === 503) {
          note('undone')
          await setTimeout(50)
        } else {
          writeSync(ledger, `${number} bad ${answer.status} ${said.slice(0, 300).replaceAll('\n', ' ')}\n`)
          gone = true
        }
      } catch {
        gone = true // killed: whether it is done is not known
      }
      await setTimeout(options.pauseMs)
    }
  }
  await Promise.all(lives.map((_, number) => connection(number)))
  closeSync(ledger)
}
