import { type ChangePosition, definePlugin, NAMESPACES, type NamespaceLifecycle, type Storage } from 'svcdb'
import { configSchema } from './config.ts'
import { Follower } from './follower.ts'
import { RollupsHandler } from './handler.ts'
import { Materialiser } from './materialiser.ts'
import { rollupMetrics } from './metrics.ts'
import { Passes } from './passes.ts'
import { Registry } from './registry.ts'
import { retentionHold, trim } from './retention.ts'
import type { Rollup } from './rollup.ts'
import { addRoutes } from './routes.ts'

// Schedules are local: each node of those that share the state computes and trims the points that it has.
/** The place of the change cursor is written when rollups have changed, and at least so often while others write. */
const POSITION_MS = 10_000

export default definePlugin({
  id: 'rollups',
  summary: 'Aggregates measurements into buckets of time, each once, and again when what it was computed from has changed',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points', 'delete', 'state', 'jobs', 'changes'],
  setup(svc, config) {
    const registry = new Registry({
      perNamespace: config.max_rollups_per_namespace,
      perSource: config.max_rollups_per_measurement,
      inAll: config.max_rollups,
      dirtyRanges: config.max_dirty_ranges,
    })
    const metrics = rollupMetrics(svc.metrics, () => {
      const all = [...registry.all()]
      return {
        rollups: all.length,
        parked: all.filter((rollup) => passes.isParked(rollup)).length,
        pending: all.reduce((sum, { dirty }) => sum + dirty.length, 0),
        lagSecs: all.reduce((most, rollup) => Math.max(most, passes.lagSecs(rollup)), 0),
        oldestSecs: passes.oldestWaitSecs,
      }
    })
    const follower = new Follower({
      ...{ storage: () => svc.storage, registry, metrics },
      marked: (rollup) => passes.wake(rollup),
      failed: (err) => svc.log.error({ err }, 'cannot follow the changes of sources; it is tried again'),
    })
    const materialiser = new Materialiser(svc, config, metrics)
    const passes = new Passes({ svc, config, registry, follower, materialiser, metrics })
    const handler = new RollupsHandler({ svc, config, registry, follower, materialiser, passes })
    const hold = retentionHold({ registry, follower, config, nowMs: () => svc.clock.now(), closed: (namespace) => passes.closed.get(namespace) })
    const meet = async (rollup: Rollup, isNew: boolean): Promise<void> => {
      const { namespace, source } = rollup.definition
      rollup.meet((await svc.storage.admission(namespace, source)).takenBefore, isNew)
    }
    let release = () => {}
    let savedAt = Number.NEGATIVE_INFINITY

    svc.start(async () => {
      const shared = svc.storage.capabilities.has('shared_state')
      await registry.open(
        svc.storage.state(svc.id),
        { now: await endOfChanges(svc.storage), shared },
        {
          made(rollup) {
            follower.follow()
            passes.wake(rollup)
            // One that could not be asked is asked at the next start.
            void meet(rollup, true).catch(() => {})
          },
          deleted: () => follower.follow(),
          failed: (err) => svc.log.warn({ err }, 'cannot read which rollups other nodes have made and deleted; it is tried again'),
        },
      )
      // Before retention goes on: by then it may have taken more than this plugin has seen.
      for (const rollup of registry.all()) await meet(rollup, rollup.until === undefined)
      release = svc.storage.holdRetention(hold)
      const namespaces = svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)
      namespaces?.holdDelete?.((name) => {
        const { length } = svc.server.multi_tenancy ? registry.list(name) : []
        return length === 0 ? undefined : `it has ${length} ${length === 1 ? 'rollup' : 'rollups'}; delete them first`
      })
      // Those that were created since it was asked.
      await namespaces?.onDelete?.(async (name) => {
        for (const rollup of registry.list(name)) await registry.delete(rollup)
        follower.follow()
      }, svc.id)
    })
    svc.ready(() => {
      follower.follow()
      for (const rollup of registry.all()) passes.wake(rollup)
    })
    svc.schedule(
      'materialise',
      config.interval_ms,
      async ({ signal }) => {
        if (registry.size === 0) return
        if (!follower.following) follower.follow()
        const position = await follower.position()
        const now = svc.clock.monotonic()
        const old = now - savedAt >= POSITION_MS
        if (old) savedAt = now
        await registry.save(old ? position : undefined)
        await passes.run(signal)
      },
      { first: config.interval_ms, jitter: 0, local: true },
    )
    const trimAll = (signal: AbortSignal) => trim(svc, registry, hold, (rollup, body) => passes.alone(rollup, body), signal)
    svc.schedule('trim', config.trim_interval_secs * 1000, ({ signal }) => trimAll(signal), { local: true })
    svc.drain(async () => {
      await registry.close()
      const position = await follower.position()
      await registry.save(position)
      await follower.close()
    })
    svc.stop(async () => {
      release()
      await follower.close()
    })

    addRoutes(svc.http, handler)
  },
})

async function endOfChanges(storage: Storage): Promise<ChangePosition> {
  const cursor = storage.changes({ measurements: [] })
  try {
    return await cursor.position()
  } finally {
    cursor.close()
  }
}
