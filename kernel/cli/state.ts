/** State for the command line: what commands of plugins read and write, and `svc state copy`, which moves all of it. */
import type { NodeConfig, StateConfig } from '../config/config.ts'
import { Logs } from '../log.ts'
import { MetricsRegistry } from '../metrics.ts'
import { copyState, type StateSide } from '../storage/state-copy.ts'
import { OWN_STATE, requireCurrent, STATE_OWNER } from '../storage/state-engine.ts'
import type { Io } from './argv.ts'
import type { OwnState } from './command.ts'

/** Between the storage engine's own store and the one that [state] names. @throws Error in one line. */
export async function copy(config: NodeConfig, { from, to }: Record<string, string | undefined>, io: Io): Promise<number> {
  const { storage, state } = config
  if (storage === undefined) throw new Error(`cannot copy state: of the plugins of ${config.file} none uses a storage`)
  if (state === undefined) throw new Error(`cannot copy state: ${config.file} names no other place for it; add a section [state] with engine and url`)
  const names = [OWN_STATE, state.engine]
  if (from === undefined || to === undefined || from === to || !names.includes(from) || !names.includes(to))
    throw new Error(`cannot copy state from "${from ?? ''}" to "${to ?? ''}": --from and --to are ${names.join(' and ')}, one each`)
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
    if (engine.stateOwners === undefined) throw new Error(`cannot copy the state of storage engine "${storage.engine}": it cannot list its owners`)
    await beside.open('exclusive')
    const sides: StateSide[] = [
      { name: OWN_STATE, state: (owner) => engine.state(owner), owners: () => engine.stateOwners?.() ?? Promise.resolve([]) },
      { name: state.engine, state: (owner) => beside.state(owner), owners: () => beside.owners() },
    ]
    const side = (name: string) => sides.find((one) => one.name === name) as StateSide
    const { owners, entries } = await copyState(side(from), side(to))
    const next = to === OWN_STATE ? 'remove the section [state]' : `start every node with [state] engine = "${to}"`
    io.out(`copied and compared: ${entries} entries of ${owners} owners, from ${from} to ${to}; ${next}\n`)
    return 0
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
