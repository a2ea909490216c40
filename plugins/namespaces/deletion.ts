/**
 * How a namespace goes: marked in the state store, so that nothing is written to it any more and a restart goes on with it; then its measurements, then what
 * others keep for it, then its definition. Where the data of all lies together, its definition goes, and nothing else.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { Logger, Storage } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DEFAULT_NAMESPACE } from './definition.ts'
import { type Directory, unknownNamespace } from './directory.ts'

/** Drops on their way through the log at once; between them others have their turn. */
const AT_ONCE = 8
const RETRY_MS = 30_000
/** Between two looks at writes on their way. */
const LOOK_MS = 20

export interface DeletionDependencies {
  directory: Directory
  /** Without it the data of all lies together, and is kept. */
  multiTenancy: boolean
  storage(): Storage
  log: Logger
  /** It is gone. */
  gone(name: string): void
  /** Default 30 s. */
  retryMs?: number
}

export class Deletion {
  private readonly dependencies: DeletionDependencies
  private readonly running = new Map<string, Promise<void>>()
  private retry: NodeJS.Timeout | undefined
  private stopped = false

  constructor(dependencies: DeletionDependencies) {
    this.dependencies = dependencies
  }

  /**
   * Resolves when nothing of it is left. @param record is awaited before anything is done.
   * @throws BAD_REQUEST for `default`, NOT_FOUND, CONFLICT when somebody needs it; others: it is deleted all the same, as soon as that can be.
   */
  async delete(name: string, record: () => Promise<void> | undefined): Promise<void> {
    const { directory } = this.dependencies
    if (name === DEFAULT_NAMESPACE) throw new SvcError('BAD_REQUEST', `cannot delete namespace "${DEFAULT_NAMESPACE}": it is always there`)
    await directory.arrived(name)
    if (directory.registry.get(name) === undefined) throw unknownNamespace(name)
    const held = directory.held(name)
    if (held !== undefined) throw new SvcError('CONFLICT', `cannot delete namespace "${name}": ${held}; remove them first`)
    await record()
    if (!directory.isDeleting(name)) {
      const keepsData = !this.dependencies.multiTenancy
      await directory.registry.commit((definitions) => {
        const known = definitions.get(name)
        if (known === undefined) throw unknownNamespace(name)
        if (keepsData) definitions.delete(name)
        else definitions.set(name, { ...known, deleting: true })
      })
      if (keepsData) {
        this.dependencies.gone(name)
        return
      }
    }
    await this.finish(name)
  }

  /** Goes on with what a stop, or a failure, has cut off. */
  async resume(): Promise<void> {
    const { directory, log } = this.dependencies
    for (const { name, deleting } of [...directory.registry.values()]) {
      if (!deleting || this.stopped) continue
      try {
        await this.finish(name)
        log.info({ namespace: name }, 'finished the deletion of a namespace')
      } catch (error) {
        log.error({ err: error as Error, namespace: name }, 'cannot finish the deletion of a namespace; it is tried again')
      }
    }
  }

  /** No more is begun. Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    this.stopped = true
    clearTimeout(this.retry)
    await Promise.allSettled(this.running.values())
  }

  private finish(name: string): Promise<void> {
    let running = this.running.get(name)
    if (running === undefined) {
      running = this.remove(name)
        .catch((error) => {
          this.later()
          throw error
        })
        .finally(() => this.running.delete(name))
      this.running.set(name, running)
    }
    return running
  }

  private async remove(name: string): Promise<void> {
    const { directory, gone } = this.dependencies
    if (directory.registry.isEnding(name)) return
    await this.removeData(name)
    await directory.registry.commit((definitions) => void definitions.delete(name))
    gone(name)
  }

  private async removeData(name: string): Promise<void> {
    await this.removePoints(name)
    for (const forget of this.dependencies.directory.forgets) await forget(name)
    // Last: whoever could ask has lost his credential.
    this.dependencies.storage().endJobs?.(name)
  }

  /** Those of this node. Resolves when none are left; nothing may be written to the namespace meanwhile. */
  async removePoints(name: string): Promise<void> {
    const { storage } = this.dependencies
    // The mark keeps new ones away; those whose first write is on its way are listed once the log has taken it.
    for (let left = await storage().measurements(name); ; left = await storage().measurements(name)) {
      if (left.length === 0) {
        if ((await storage().usage(name)).measurements === 0) break
        await sleep(LOOK_MS)
      }
      this.requireGoing(name)
      for (let i = 0; i < left.length; i += AT_ONCE) {
        this.requireGoing(name)
        await Promise.all(left.slice(i, i + AT_ONCE).map((measurement) => this.drop(name, measurement.name)))
        await setImmediate()
      }
    }
    storage().forgetChanges?.(name)
  }

  private requireGoing(name: string): void {
    if (this.stopped)
      throw new SvcError('DATABASE_CLOSED', `cannot finish the deletion of namespace "${name}": the server stops; the next start goes on with it`)
  }

  private async drop(namespace: string, measurement: string): Promise<void> {
    try {
      await this.dependencies.storage().drop(namespace, measurement, { final: true })
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof SvcError) || error.code !== 'NOT_FOUND') throw error
    }
  }

  private later(): void {
    if (this.stopped) return
    clearTimeout(this.retry)
    this.retry = setTimeout(() => void this.resume(), this.dependencies.retryMs ?? RETRY_MS).unref()
  }
}
