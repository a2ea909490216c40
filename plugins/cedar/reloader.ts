/** Keeps the engine at what the files say: at the start, when they change, and on SIGHUP. */
import { type AuditLog, type AuditRecord, audited, type Logger } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { checkInThread } from './check-thread.ts'
import type { PolicyEngine } from './engine.ts'
import type { PolicyMetrics } from './metrics.ts'
import type { Checked } from './policy-check.ts'
import { type PolicyFiles, type PolicySource, readPolicies } from './policy-files.ts'

interface ReloaderDependencies {
  source: PolicySource
  engine: PolicyEngine
  /** False: changes are taken up by a restart only. */
  hot: boolean
  /** Whether the data of each namespace is apart. */
  multiTenancy: boolean
  metrics: PolicyMetrics
  log: Logger
  auditLog(): AuditLog | undefined
}

const SHOWN_PROBLEMS = 20
const AUDIT_REASON_LENGTH = 1000
const NAMES_NAMESPACE = /\bSvc::Namespace::"|\bresource\s*(?:\.\s*name\b|\[\s*"name"\s*\])/

export class PolicyReloader {
  private readonly dependencies: ReloaderDependencies
  private readonly over = new AbortController()
  /** One load at a time, in the order they were asked for. */
  private queue: Promise<void> = Promise.resolve()
  /** What was tried last, good or bad: it is not tried again until it changes. */
  private tried = ''
  private first: AuditRecord | undefined
  /** Asked for and not begun: what comes meanwhile is served by it. */
  private forced = false
  private readonly onSignal = () => void this.reload(true)

  constructor(dependencies: ReloaderDependencies) {
    this.dependencies = dependencies
  }

  /** @throws SvcError CONFIG_ERROR with all problems. */
  async load(): Promise<void> {
    const { source, engine } = this.dependencies
    let found: { read: PolicyFiles; checked: Checked }
    try {
      found = await this.checked(await readPolicies(source))
      this.over.signal.throwIfAborted()
    } catch (error) {
      throw new SvcError('CONFIG_ERROR', (error as Error).message, { cause: error })
    }
    engine.activate(found.checked.set)
    this.tried = found.read.digest
    this.first = recordOf(source, found.read, found.checked)
    this.applied(found.read, found.checked)
  }

  /** Records what was loaded, now that whoever keeps the audit log has started too, and listens for SIGHUP. */
  async watch(): Promise<void> {
    if (this.first !== undefined) await this.dependencies.auditLog()?.record(this.first)
    this.first = undefined
    if (this.dependencies.hot && !this.over.signal.aborted) process.on('SIGHUP', this.onSignal)
  }

  /** Safe twice. */
  async stop(): Promise<void> {
    this.over.abort()
    process.off('SIGHUP', this.onSignal)
    await this.queue
  }

  /** @param always also when nothing has changed since. Never throws: what was before stays, and why is logged. */
  reload(always = false): Promise<void> {
    if (this.forced) return this.queue
    this.forced = always
    this.queue = this.queue.then(() => this.attempt(always)).catch((error) => this.dependencies.log.error({ err: error }, 'policies could not be reloaded'))
    return this.queue
  }

  private async attempt(always: boolean): Promise<void> {
    this.forced = false
    const { source, engine, metrics, log } = this.dependencies
    let digest = ''
    let found: { read: PolicyFiles; checked: Checked }
    try {
      const read = await readPolicies(source)
      digest = read.digest
      if (this.over.signal.aborted || (digest === this.tried && !always)) return
      found = await this.checked(read)
    } catch (error) {
      const { message } = error as Error
      digest ||= message
      if (this.over.signal.aborted || (digest === this.tried && !always)) return
      this.tried = digest
      await this.refused(message)
      return
    }
    try {
      await audited(this.dependencies.auditLog(), recordOf(source, found.read, found.checked), async () => {
        if (this.over.signal.aborted) throw new SvcError('DATABASE_CLOSED', 'the server stops')
        engine.activate(found.checked.set)
      })
    } catch (error) {
      if (this.over.signal.aborted) return
      // It is tried again the next time: the files are good.
      metrics.reloads.inc({ result: 'failed' })
      log.error({ err: error }, 'policies were not reloaded; the ones before stay')
      return
    }
    this.tried = digest
    this.applied(found.read, found.checked)
  }

  private async checked(read: PolicyFiles): Promise<{ read: PolicyFiles; checked: Checked }> {
    const checked = await checkInThread(read.files, { signal: this.over.signal })
    const { problems } = checked
    if (problems.length === 0) return { read, checked }
    const more = problems.length > SHOWN_PROBLEMS ? [`and ${problems.length - SHOWN_PROBLEMS} more`] : []
    const lines = [...problems.slice(0, SHOWN_PROBLEMS), ...more]
    throw new Error(`cannot use the policies of "${this.dependencies.source.path}": ${lines.join('\n')}`)
  }

  private applied({ digest }: PolicyFiles, { set, warnings }: Checked): void {
    const { log, metrics, source, engine, multiTenancy } = this.dependencies
    metrics.reloads.inc({ result: 'applied' })
    for (const warning of warnings.slice(0, SHOWN_PROBLEMS)) log.warn(`policy ${warning}`)
    const naming = multiTenancy ? undefined : [...set.policies].find(([, { text }]) => NAMES_NAMESPACE.test(text))
    if (naming !== undefined)
      log.warn(
        { policy: naming[0] },
        'a policy names a namespace, and without server.multi_tenancy all namespaces are the same data: a caller whose credential names none reaches it under any other name; set server.multi_tenancy, or name the namespaces in each credential',
      )
    if (set.policies.size === 0) log.warn({ path: source.path }, 'there are no policies: every call that needs credentials is refused')
    log.info({ path: source.path, policies: set.policies.size, digest, epoch: engine.epoch }, 'policies loaded')
  }

  private async refused(reason: string): Promise<void> {
    const { log, metrics, source } = this.dependencies
    metrics.reloads.inc({ result: 'refused' })
    log.error({ path: source.path }, `policies were refused, the ones before stay: ${reason}`)
    await this.dependencies.auditLog()?.record({
      action: 'policy_load',
      resource: source.path,
      decision: 'deny',
      metadata: { reason: reason.slice(0, AUDIT_REASON_LENGTH) },
    })
  }
}

function recordOf({ path }: PolicySource, { files, digest }: PolicyFiles, { set }: Checked): AuditRecord {
  const metadata = { policies: String(set.policies.size), files: String(files.length), sha256: digest }
  return { action: 'policy_load', resource: path, decision: 'allow', metadata }
}
