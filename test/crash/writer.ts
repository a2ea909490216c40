/**
 * The client, a process of its own: writes batches over several connections until the server is gone, and keeps a ledger of what
 * was acknowledged. A line `ack <batch>` is fsynced before the next batch of that connection is sent; `begin <batch>` stands
 * before sending, `none <batch>` after an answer that promises nothing was stored, `bad <batch> ...` after any other.
 *
 * Arguments: one JSON object, see WriterOptions.
 */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { Sender, type SenderOptions } from './sender.ts'
import { type Protocol, TEXT_PROTOCOLS } from './workload.ts'

export interface WriterOptions {
  url: string
  ledger: string
  /** Those that batches are for; absent = the text protocols. */
  protocols?: readonly Protocol[]
  /** With protocols that have listeners of their own. */
  ports?: SenderOptions['ports']
  /** Nanoseconds, as digits. */
  base: string
  /** Batches whose outcome is unknown, to send again first. */
  retry: number[]
  /** The first new batch. */
  first: number
  connections: number
  /** Milliseconds between batches of a connection. */
  pauseMs: number
  /** Stop after so many batches; absent = when the server is gone. */
  limit?: number
}

const options = JSON.parse(process.argv[2]) as WriterOptions
const sender = new Sender({ protocols: TEXT_PROTOCOLS, ports: { grpc: 0, flight: 0 }, ...options, base: BigInt(options.base) })
const ledger = openSync(options.ledger, 'a')
let next = options.first
let sent = 0
let gone = false

function take(): number | undefined {
  if (gone || (options.limit !== undefined && sent >= options.limit)) return undefined
  sent++
  return options.retry.shift() ?? next++
}

async function connection(): Promise<void> {
  for (let batch = take(); batch !== undefined; batch = take()) {
    writeSync(ledger, `begin ${batch}\n`)
    const sent = await sender.send(batch)
    if (sent.outcome === 'ack') {
      writeSync(ledger, `ack ${batch}\n`)
      fdatasyncSync(ledger)
    } else if (sent.outcome === 'none') {
      writeSync(ledger, `none ${batch}\n`)
      await setTimeout(50)
    } else if (sent.outcome === 'bad') writeSync(ledger, `bad ${batch} ${sent.text.slice(0, 300).replaceAll('\n', ' ')}\n`)
    else gone = true // killed: whether the batch is stored is not known
    await setTimeout(options.pauseMs)
  }
}

await Promise.all(Array.from({ length: options.connections }, connection))
sender.close()
closeSync(ledger)
