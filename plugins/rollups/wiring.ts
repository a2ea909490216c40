/** The plugin's objects put together, and what they do from start to stop. */
import { type ChangePosition, NAMESPACES, type NamespaceLifecycle, type Storage, type Svc } from 'svcdb'
import type { RollupsConfig } from './config.ts'
import { Follower } from './follower.ts'
import { RollupsHandler } from './handler.ts'
import { Materialiser } from './materialiser.ts'
import { rollupMetrics } from './metrics.ts'
import { Passes } from './passes.ts'
import { Registry } from './registry.ts'
import { retentionHold, trim } from './retention.ts'
import type { Rollup } from './rollup.ts'

/** The place of the change cursor is written when rollups have changed, and at least so often while others write. */
const POSITION_MS = 10_000

export class Rollups {
  readonly handler: RollupsHandler
  private readonly svc: Svc
  private readonly registry: Registry
  private readonly follower: Follower
  private readonly passes: Passes
  private readonly hold: ReturnType<typeof retentionHold>
  private release = (): void => {}
  private savedAt = Number.NEGATIVE_INFINITY

  constructor(svc: Svc, config: RollupsConfig) {
    this.svc = svc
    const registry = new Registry({
      perNamespace: config.max_rollups_per_namespace,
      perSource: config.max_rollups_per_measurement,
      tiers: config.max_tiers,
      inAll: config.max_rollups,
      dirtyRanges: config.max_dirty_ranges,
    })
    const metrics = rollupMetrics(svc.metrics, () => gaugesOf(registry, this.passes))
    const follower = new Follower({
      ...{ storage: () => svc.storage, registry, metrics },
      marked: (rollup) => this.passes.wake(rollup),
      failed: (err) => svc.log.error({ err }, 'cannot follow the changes of sources; it is tried again'),
    })
    const materialiser = new Materialiser(svc, config, metrics)
    const passes = new Passes({ svc, config, registry, follower, materialiser, metrics })
    this.registry = registry
    this.follower = follower
    this.passes = passes
    this.handler = new RollupsHandler({ svc, config, registry, follower, materialiser, passes })
    this.hold = retentionHold({ registry, follower, config, nowMs: () => svc.clock.now(), closed: (namespace) => passes.closed.get(namespace) })
  }

  async start(): Promise<void> {
    const { svc, registry, follower, passes } = this
    const shared = svc.storage.capabilities.has('shared_state')
    await registry.open(
      svc.storage.state(svc.id),
      { now: await endOfChanges(svc.storage), shared },
      {
        made: (rollup) => {
          follower.follow()
          passes.wake(rollup)
          // One that could not be asked is asked at the next start.
          void this.meet(rollup, true).catch(() => {})
        },
        deleted: () => follower.follow(),
        failed: (err) => svc.log.warn({ err }, 'cannot read which rollups other nodes have made and deleted; it is tried again'),
      },
    )
    // Before retention goes on: by then it may have taken more than this plugin has seen.
    for (const rollup of registry.all()) await this.meet(rollup, rollup.until === undefined)
    this.release = svc.storage.holdRetention(this.hold)
    await this.followNamespaces()
  }

  ready(): void {
    this.follower.follow()
    for (const rollup of this.registry.all()) this.passes.wake(rollup)
  }

  async materialise(signal: AbortSignal): Promise<void> {
    const { registry, follower } = this
    if (registry.size === 0) return
    if (!follower.following) follower.follow()
    const position = await follower.position()
    const now = this.svc.clock.monotonic()
    const old = now - this.savedAt >= POSITION_MS
    if (old) this.savedAt = now
    await registry.save(old ? position : undefined)
    await this.passes.run(signal)
  }

  trim(signal: AbortSignal): Promise<void> {
    return trim(this.svc, this.registry, this.hold, (rollup, body) => this.passes.alone(rollup, body), signal)
  }

  async drain(): Promise<void> {
    await this.registry.close()
    const position = await this.follower.position()
    await this.registry.save(position)
    await this.follower.close()
  }

  async stop(): Promise<void> {
    this.release()
    await this.follower.close()
  }

  /** Tells a rollup what retention has taken of its source. */
  private async meet(rollup: Rollup, isNew: boolean): Promise<void> {
    const { namespace, source } = rollup.definition
    rollup.meet((await this.svc.storage.admission(namespace, source)).takenBefore, isNew)
  }

  /** A namespace with rollups cannot be deleted; those that came meanwhile go with it. */
  private async followNamespaces(): Promise<void> {
    const { svc, registry } = this
    const namespaces = svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)
    namespaces?.holdDelete?.((name) => {
      const { length } = svc.server.multi_tenancy ? registry.list(name) : []
      return length === 0 ? undefined : `it has ${length} ${length === 1 ? 'rollup' : 'rollups'}`
    })
    // Those that were created since it was asked.
    await namespaces?.onDelete?.(async (name) => {
      for (const rollup of registry.list(name)) await registry.delete(rollup)
      this.follower.follow()
    }, svc.id)
  }
}

function gaugesOf(registry: Registry, passes: Passes): ReturnType<Parameters<typeof rollupMetrics>[1]> {
  const all = [...registry.all()]
  return {
    rollups: all.length,
    parked: all.filter((rollup) => passes.isParked(rollup)).length,
    pending: all.reduce((sum, { dirty }) => sum + dirty.length, 0),
    lagSecs: all.reduce((most, rollup) => Math.max(most, passes.lagSecs(rollup)), 0),
    oldestSecs: passes.oldestWaitSecs,
  }
}

async function endOfChanges(storage: Storage): Promise<ChangePosition> {
  const cursor = storage.changes({ measurements: [] })
  try {
    return await cursor.position()
  } finally {
    cursor.close()
  }
}
