/** The authorizer: puts each call to the policies as a question about a namespace or about the system. */
import type { Authorization, CallContext, Clock, Logger } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Evaluation, PolicyEngine } from './engine.ts'
import type { PolicyMetrics } from './metrics.ts'
import { type Capability, capabilityOf, DATA_ACTIONS, type DataAction } from './model.ts'
import type { Question } from './request.ts'

const SHOWN_LENGTH = 128

interface GuardDependencies {
  /** Undefined before the start and after the stop. */
  engine(): PolicyEngine | undefined
  metricsPath: string
  metrics: PolicyMetrics
  clock: Clock
  log: Logger
}

export class Guard {
  private readonly dependencies: GuardDependencies
  /** Policies whose failure was told, of the set that counts. */
  private readonly told = { epoch: 0, policies: new Set<string>() }
  /** Why the engine can no longer be used. */
  broken: string | undefined

  constructor(dependencies: GuardDependencies) {
    this.dependencies = dependencies
  }

  authorize({ context, action, resource }: Authorization): SvcError | undefined {
    const capability = capabilityOf(action, resource, this.dependencies.metricsPath)
    if (capability !== undefined) return this.authorizeSystem(context, capability, resource)
    if (action === 'read' || action === 'write' || action === 'delete') return this.authorizeNamespace(context, DATA_ACTIONS[action], resource)
    return new SvcError('FORBIDDEN', `cannot authorize "${resource}": its action "${action}" is none that policies know`)
  }

  authorizeNamespace(context: CallContext, action: DataAction, route: string): SvcError | undefined {
    const { namespace } = context
    return this.ask({ context, action, namespace, route, now: this.dependencies.clock.now() })
  }

  authorizeSystem(context: CallContext, capability: Capability, route: string): SvcError | undefined {
    return this.ask({ context, action: capability, namespace: undefined, route, now: this.dependencies.clock.now() })
  }

  private ask(question: Question): SvcError | undefined {
    const { metrics, log, clock } = this.dependencies
    const engine = this.dependencies.engine()
    let evaluation: Evaluation | undefined
    const start = clock.monotonic()
    try {
      evaluation = engine?.decide(question)
    } catch (error) {
      metrics.decisions.inc({ outcome: 'error' })
      log.error({ err: error, ...factsOf(question) }, 'a call was refused: the policies could not be evaluated')
      if (isFatal(error)) this.broken = 'the policy engine has failed; restart the server'
      return new SvcError('INTERNAL_ERROR', `cannot authorize ${subjectOf(question)}: the policies could not be evaluated; see the log`, { cause: error })
    }
    if (engine === undefined || evaluation === undefined) {
      metrics.decisions.inc({ outcome: 'error' })
      return new SvcError('BACKPRESSURE', `cannot authorize ${subjectOf(question)}: no policies are loaded yet, or the server stops; retry`)
    }
    const { outcome, cached } = evaluation
    metrics.decisions.inc({ outcome })
    if (cached) metrics.cacheHits.inc()
    else metrics.evaluations.observe((clock.monotonic() - start) / 1000)
    if (outcome === 'allow') return undefined
    if (outcome === 'malformed') {
      this.tell(engine.epoch, evaluation, question)
      return new SvcError(
        'FORBIDDEN',
        `cannot authorize ${subjectOf(question)}: it cannot be told what the policies permit; ask an administrator to look into the log`,
      )
    }
    if (log.isLevelEnabled('debug')) log.debug({ ...factsOf(question), policies: evaluation.policies }, 'the policies permit it not')
    return new SvcError(
      'FORBIDDEN',
      `cannot authorize ${subjectOf(question)}: the policies do not permit it; ask an administrator for a role or a policy that does`,
    )
  }

  /** Each policy that fails is told once, however often it does. */
  private tell(epoch: number, { errors }: Evaluation, question: Question): void {
    if (this.told.epoch !== epoch) {
      this.told.epoch = epoch
      this.told.policies.clear()
    }
    for (const { policy, message } of errors) {
      if (this.told.policies.has(policy)) continue
      this.told.policies.add(policy)
      this.dependencies.log.warn({ policy, error: message, ...factsOf(question) }, 'a policy failed: calls that it is asked about are refused')
    }
  }
}

function factsOf({ context, action, namespace, route }: Question): object {
  return { principal: shown(context.principal), action, namespace, route, request_id: context.requestId }
}

function subjectOf({ context, action, namespace }: Question): string {
  return `"${action}" on ${namespace === undefined ? 'the system' : `namespace "${namespace}"`} for "${shown(context.principal)}"`
}

/** Principals come from outside: on one line, and not too long. */
function shown(principal: string): string {
  const short = principal.length > SHOWN_LENGTH ? `${principal.slice(0, SHOWN_LENGTH)}...` : principal
  return JSON.stringify(short.toWellFormed()).slice(1, -1)
}

/** A stack that overflowed or memory that ran out leaves the engine as it was in the middle of its work. By name: no library types WebAssembly. */
function isFatal(error: unknown): boolean {
  return error instanceof Error && (error.name === 'RuntimeError' || error.name === 'RangeError')
}
