/**
 * A connection that stays: it says that the store is in use, and hears what others change (watches.ts).
 *
 * Invariants
 * - A node holds the lock `use` of the schema shared, whoever must be alone holds it exclusively. PostgreSQL takes it back with the connection, so that nothing
 *   is left of a process that was killed.
 * - A node that has lost the connection makes another, for as long as the store is open. Whoever must be alone does not go on: others may have come.
 */
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import type { StateUse } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Connections, endsInTime, shortened } from './connections.ts'
import type { Link } from './link.ts'
import { LOCKS } from './tables.ts'
import type { Watches } from './watches.ts'

/** PostgreSQL notices within half a minute that a machine is gone. */
const KEEPALIVE = 'SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3'
const AGAIN_MS = 250

interface Held {
  client: Client
  ended: Promise<unknown>
}

interface SessionDependencies {
  connections: Connections
  link: Link
  watches: Watches
  schema: string
}

export class Session {
  private readonly dependencies: SessionDependencies
  private held: Held | undefined
  private attends = false
  private readonly closing = new AbortController()

  constructor(dependencies: SessionDependencies) {
    this.dependencies = dependencies
  }

  /** One attempt. @throws CONFLICT where another's use does not go with it; NotConnected, and what PostgreSQL says. */
  async begin(use: Exclude<StateUse, 'read'>): Promise<void> {
    if (this.held !== undefined) return
    void this.keep(await this.join(use), use)
  }

  /** Tells of changes from now on: the tables are there. @throws what PostgreSQL says. */
  async attend(): Promise<void> {
    this.attends = true
    if (this.held !== undefined) await this.dependencies.watches.attend(this.held.client, this.closing.signal)
  }

  async close(): Promise<void> {
    this.closing.abort()
    if (this.held !== undefined) await endsInTime(this.held.client.end().catch(() => {}))
  }

  /** Never rejects. */
  private async keep(first: Held, use: Exclude<StateUse, 'read'>): Promise<void> {
    for (let held: Held | undefined = first; held !== undefined; held = await this.joinAgain()) {
      await held.ended
      this.held = undefined
      if (this.closing.signal.aborted) return
      this.dependencies.link.note(new Error('the connection that holds the state store was lost'))
      if (use === 'exclusive')
        return this.dependencies.link.refuse(
          new SvcError('OVERLOADED', 'cannot go on in the state store: the connection that kept others away was lost; run the command again'),
        )
    }
  }

  private async joinAgain(): Promise<Held | undefined> {
    while (!this.closing.signal.aborted) {
      let held: Held | undefined
      try {
        held = await this.join('shared')
        this.dependencies.link.refuse(undefined)
        if (this.attends) await this.dependencies.watches.attend(held.client, this.closing.signal)
        return held
      } catch (error) {
        await held?.client.end().catch(() => {})
        // What runs alone there does not expect that anything changes.
        if (error instanceof SvcError) this.dependencies.link.refuse(error)
        this.dependencies.link.note(error)
        await setTimeout(AGAIN_MS, undefined, { signal: this.closing.signal }).catch(() => {})
      }
    }
    return undefined
  }

  private async join(use: Exclude<StateUse, 'read'>): Promise<Held> {
    const client = await this.dependencies.connections.lasting()
    const ended = new Promise((resolve) => client.once('end', resolve))
    try {
      const lock = `${LOCKS.use}, hashtext('${this.dependencies.schema}')`
      await client.query(KEEPALIVE)
      const { rows } = await client.query<{ held: boolean }>(`SELECT pg_try_advisory_lock${use === 'shared' ? '_shared' : ''}(${lock}) AS held`)
      if (!rows[0].held) throw occupied(use, await this.others(client))
      if (this.closing.signal.aborted) throw new SvcError('DATABASE_CLOSED', 'cannot use the state store: it is closed')
    } catch (error) {
      await client.end().catch(() => {})
      throw shortened(error)
    }
    this.held = { client, ended }
    return this.held
  }

  private async others(client: Client): Promise<string> {
    const { rows } = await client.query<{ name: string; at: string | null }>(
      `SELECT a.application_name AS name, host(a.client_addr) AS at FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = ${LOCKS.use} AND l.objid::bigint = hashtext($1)::bigint & 4294967295 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [this.dependencies.schema],
    )
    return rows.map(({ name, at }) => `${name.replace(/^svc /, '')} at ${at ?? 'this host'}`).join(', ') || 'others'
  }
}

function occupied(use: StateUse, others: string): SvcError {
  return use === 'shared'
    ? new SvcError('CONFLICT', `cannot open the state store: a command works on it alone (${others}); start again when it has ended`)
    : new SvcError('CONFLICT', `cannot open the state store alone: nodes run on it (${others}); stop them, or ask one of them over its API`)
}
