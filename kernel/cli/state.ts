/** State for the command line: what commands of plugins read and write, `svc state copy`, which moves all of it, and `svc state discard`. */
import type { NodeConfig, StateConfig } from '../config/config.ts'
import { Logs } from '../log.ts'
import { MetricsRegistry } from '../metrics.ts'
import { copyState, discardState, type StateSide } from '../storage/state-copy.ts'
import { OWN_STATE, requireCurrent, STATE_OWNER, type StateUse } from '../storage/state-engine.ts'
import type { Io } from './argv.ts'
import type { OwnState } from './command.ts'

type Flags = Record<string, string | undefined>

/** Between the storage engine's own store and the one that [state] names. @throws Error in one line. */
export async function copy(config: NodeConfig, { from, to }: Flags, io: Io): Promise<number> {
  const { storage, state } = requireBoth(config, 'copy')
  const names = [OWN_STATE, state.engine]
  if (from === undefined || to === undefined || from === to || !names.includes(from) || !names.includes(to))
    throw new Error(`cannot copy state from "${from ?? ''}" to "${to ?? ''}": --from and --to are ${names.join(' and ')}, one each`)
  return withSides({ storage, state }, 'exclusive', async (own, beside) => {
    const side = (name: string) => (name === OWN_STATE ? own : beside)
    const { owners, entries } = await copyState(side(from), side(to))
    const next = to === OWN_STATE ? 'remove the section [state]' : `start every node with [state] engine = "${to}"`
    io.out(`copied and compared: ${entries} entries of ${owners} owners, from ${from} to ${to}; ${next}\n`)
    return 0
  })
}

/** What the storage engine's own store has, where the node goes on with what is in the one that [state] names. @throws Error in one line. */
export async function discard(config: NodeConfig, { from }: Flags, io: Io): Promise<number> {
  const { storage, state } = requireBoth(config, 'discard')
  if (from !== OWN_STATE) throw new Error(`cannot discard the state of "${from ?? ''}": --from is ${OWN_STATE}`)
  return withSides({ storage, state }, 'read', async (own, beside, isThere) => {
    if (!isThere || (await beside.owners()).length === 0)
      throw new Error(
        `cannot discard the state of "${OWN_STATE}": there is none in "${state.engine}" to go on with; run svc state copy, or remove the section [state]`,
      )
    await requireCurrent(beside.state(STATE_OWNER), state.engine)
    const { owners, entries } = await discardState(own)
    io.out(`discarded: ${entries} entries of ${owners} owners; the node goes on with the state in ${state.engine}\n`)
    return 0
  })
}

type Both = Record<'storage', NonNullable<NodeConfig['storage']>> & Record<'state', StateConfig>

function requireBoth({ storage, state, file }: NodeConfig, verb: string): Both {
  if (storage === undefined) throw new Error(`cannot ${verb} state: of the plugins of ${file} none uses a storage`)
  if (state === undefined) throw new Error(`cannot ${verb} state: ${file} names no other place for it; add a section [state] with engine and url`)
  return { storage, state }
}

/** @param use of the store that [state] names. The storage engine's own is nobody else's meanwhile. */
async function withSides(
  { storage, state }: Both,
  use: StateUse,
  run: (own: StateSide, beside: StateSide, isThere: boolean) => Promise<number>,
): Promise<number> {
  const logs = new Logs({ level: 'error', format: 'text' })
  const metrics = new MetricsRegistry()
  const context = (name: string, own: Record<string, unknown>) => ({
    config: own,
    log: logs.child(name),
    metrics: metrics.child(`storage/${name}`),
    sqlFunctions: [],
    now: Date.now,
  })
  const engine = storage.module.createEngine(context(storage.engine, storage.config))
  const beside = state.module.createState(context(state.engine, state.config))
  try {
    // What nobody holds back may be tidied away while it is open.
    engine.holdRetention(() => -(2n ** 63n))
    await engine.open()
    if (engine.stateOwners === undefined) throw new Error(`cannot read the state of storage engine "${storage.engine}": it cannot list its owners`)
    const isThere = await beside.open(use)
    return await run(
      { name: OWN_STATE, state: (owner) => engine.state(owner), owners: () => engine.stateOwners?.() ?? Promise.resolve([]) },
      { name: state.engine, state: (owner) => beside.state(owner), owners: () => beside.owners() },
      isThere,
    )
  } finally {
    await beside.close()
    await engine.close()
    metrics.close()
  }
}

/**
 * What an owner has in the state store, for commands, wherever the config has it. @returns undefined when there is nothing yet.
 * @throws Error in one line; also for state that has moved elsewhere.
 */
export async function openStateOf(config: NodeConfig, owner: string, use: 'read' | 'exclusive'): Promise<OwnState | undefined> {
  const { storage, state } = config
  if (storage === undefined) return undefined
  if (state !== undefined) return openBeside(state, owner, use)
  const { module } = storage
  const marks = await module.openState?.(storage.config, STATE_OWNER)
  try {
    if (marks !== undefined) await requireCurrent(marks.state, OWN_STATE)
  } finally {
    await marks?.close()
  }
  return (await (use === 'read' ? module.openState : module.ownState)?.(storage.config, owner)) as OwnState | undefined
}

async function openBeside({ module, config, engine }: StateConfig, owner: string, use: 'read' | 'exclusive'): Promise<OwnState | undefined> {
  const metrics = new MetricsRegistry()
  const log = new Logs({ level: 'error', format: 'text' }).child('state')
  const store = module.createState({ config, log, metrics: metrics.child(`storage/${engine}`), now: Date.now })
  const close = async (): Promise<void> => {
    await store.close()
    metrics.close()
  }
  try {
    if (await store.open(use)) {
      await requireCurrent(store.state(STATE_OWNER), engine)
      return { state: store.state(owner), close }
    }
  } catch (error) {
    await close()
    throw error
  }
  await close()
  return undefined
}
