/** Runs BACKUP and RESTORE: begun, and then looked at until they have ended, so that no connection has to last as long as they do. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SvcError } from 'svcdb/lib/errors'
import type { Client } from '../client.ts'
import type { Place } from '../statements.ts'
import { texts } from '../topology.ts'
import { OperationFault } from './faults.ts'
import { statusOf } from './statements.ts'

const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 1000
/** Statements that name every database or table are long. */
const LONG = { max_query_size: String(2 ** 30) }

/** Of a whole backup, as ClickHouse counts them. */
export interface Figures {
  files: number
  bytes: number
}

export class Operations {
  private readonly client: Client
  private readonly place: Place
  private readonly patienceMs: number
  private readonly closing: AbortSignal

  /** @param patienceMs how long ClickHouse may give no answer. @param closing ends all waiting; its reason is thrown. */
  constructor(client: Client, place: Place, patienceMs: number, closing: AbortSignal) {
    this.client = client
    this.place = place
    this.patienceMs = patienceMs
    this.closing = closing
  }

  /** @param statement with an id. @throws OperationFault with what ClickHouse says, and what the client throws. */
  async run(statement: (id: string) => string): Promise<Figures> {
    const id = randomUUID()
    this.closing.throwIfAborted()
    await this.client.command(statement(id), undefined, LONG)
    let answered = performance.now()
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      await sleep(pause, undefined, { signal: this.closing }).catch(() => this.closing.throwIfAborted())
      const found = await this.look(id, performance.now() - answered > this.patienceMs)
      if (found === undefined) continue
      answered = performance.now()
      const [status, error, files, bytes] = found
      if (status === 'BACKUP_CREATED' || status === 'RESTORED') return { files: Number(files), bytes: Number(bytes) }
      if (/_(FAILED|CANCELLED)$/.test(status)) throw new OperationFault(error === '' ? 'it was cancelled' : error)
    }
  }

  /** @returns undefined when ClickHouse gives no answer, or knows of none; a server that has begun it may be away for a moment. */
  private async look(id: string, last: boolean): Promise<string[] | undefined> {
    try {
      const [found] = await texts(this.client, statusOf(this.place, id), this.closing)
      if (found !== undefined || !last) return found
    } catch (error) {
      if (last || !(error instanceof SvcError) || !['OVERLOADED', 'QUERY_TIMEOUT'].includes(error.code)) throw error
      return undefined
    }
    throw new SvcError('OVERLOADED', 'cannot follow what ClickHouse does: it no longer knows of it, as after a restart; see what is on the disk')
  }
}
