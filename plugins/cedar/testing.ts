/** For tests: nodes whose callers say in their token who they are, and folders of policies. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { InjectOptions } from 'fastify'
import { AUDIT_LOG, type AuditLog, type AuditRecord, definePlugin, type Identity, type Plugin } from 'svcdb'
import { type BootOptions, boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import type { Test } from 'tap'
import { loadCedar } from './cedar-library.ts'
import { checkInThread } from './check-thread.ts'
import { PolicyEngine } from './engine.ts'
import plugin from './index.ts'
import { checkPolicies, type PolicySet } from './policy-check.ts'
import type { Question } from './request.ts'

/** A token that says `who`: JSON in base64url. */
export function tokenFor(who: Partial<Identity> & { principal: string }): string {
  return `Bearer ${Buffer.from(JSON.stringify(who)).toString('base64url')}`
}

/** Believes what the token says. */
export const believer: Plugin = definePlugin({
  id: 'believer',
  summary: 'Believes tokens, for tests',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) => {
      const token = header('authorization')?.slice('Bearer '.length)
      if (token === undefined) return undefined
      const who = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as Partial<Identity> & { principal: string }
      return { method: 'test', claims: {}, namespaces: [], admin: false, ...who }
    })
  },
})

/** Keeps what is recorded. @param refuse has recording fail. */
export function auditLogPlugin(records: AuditRecord[], refuse: () => boolean = () => false): Plugin {
  return definePlugin({
    id: 'audit_log',
    summary: 'Keeps records, for tests',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup(svc) {
      const auditLog: AuditLog = {
        async record(record) {
          if (refuse()) throw new Error('the audit log is full')
          records.push(record)
        },
      }
      svc.provide(AUDIT_LOG, auditLog)
    },
  })
}

/** Routes of every kind, each of which answers who called. */
export function routesPlugin(
  routes: readonly { method: 'GET' | 'POST' | 'PUT' | 'DELETE'; url: string; action?: 'read' | 'write' | 'delete' | 'admin' }[],
): Plugin {
  return definePlugin({
    id: 'some_routes',
    summary: 'Routes, for tests',
    stability: 'experimental',
    setup(svc) {
      for (const { method, url, action } of routes) {
        const config = action === undefined ? {} : { action }
        svc.http.route({ method, url, config, handler: async (request) => ({ principal: svc.context(request).principal }) })
      }
    },
  })
}

/** A folder of policies, by file name, which goes with the test. */
export function policyFolder(t: Test, files: Record<string, string>): string {
  const folder = temporaryFolder(t)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

export interface PolicyNode {
  node: TestNode
  folder: string
  lines: string[]
  /** Asks as somebody. */
  as(who: Partial<Identity> & { principal: string }, request: InjectOptions): Promise<{ status: number; code?: string; error?: string }>
  metric(name: string): Promise<number>
}

/** @param policies by file name. @param section of [authorization]. */
export async function startPolicies(
  t: Test,
  policies: Record<string, string> | string,
  { section, ...options }: BootOptions & { section?: Record<string, unknown> } = {},
): Promise<PolicyNode> {
  const folder = policyFolder(t, typeof policies === 'string' ? { 'all.cedar': policies } : policies)
  const lines: string[] = []
  const config = { ...options.config, authorization: { policy_dir: folder, ...section } }
  const node = await boot({ log: (line) => lines.push(line), ...options, plugins: [plugin, believer, ...(options.plugins ?? [])], config })
  t.teardown(() => node.stop())
  return {
    node,
    folder,
    lines,
    async as(who, request) {
      const answer = await node.inject({ ...request, headers: { ...request.headers, authorization: tokenFor(who) } })
      const body = answer.headers['content-type']?.toString().startsWith('application/json') ? (answer.json() as { code?: string; error?: string }) : {}
      return { status: answer.statusCode, ...body }
    },
    async metric(name) {
      const text = await node.node.metrics.text()
      const line = text.split('\n').find((one) => one.startsWith(`${name} `))
      return Number(line?.slice(name.length + 1))
    },
  }
}

/** What is wrong with one policy; for those that leave the engine as it was. */
export async function problemsOf(text: string): Promise<string[]> {
  return checkPolicies(await loadCedar(), [{ name: 'p.cedar', text }]).problems
}

/** As the server asks, in a thread of its own, which takes a fifth of a second. */
export async function problemsInThread(text: string): Promise<string[]> {
  return (await checkInThread([{ name: 'p.cedar', text }])).problems
}

/** @throws Error for policies that cannot be used. */
export async function setOf(text: string): Promise<PolicySet> {
  const { set, problems } = checkPolicies(await loadCedar(), [{ name: 'p.cedar', text }])
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return set
}

export async function engineOf(text: string, cacheEntries = 10_000): Promise<PolicyEngine> {
  const engine = new PolicyEngine(await loadCedar(), cacheEntries)
  engine.activate(await setOf(text))
  return engine
}

export function question(more: Omit<Partial<Question>, 'context'> & { context?: Partial<Question['context']> } = {}): Question {
  const context = { principal: 'ann', roles: [], method: 'test', claims: {}, address: '127.0.0.1', requestId: 'r1', ...more.context }
  return { action: 'Read', namespace: 'default', route: '/r', now: Date.UTC(2026, 0, 2, 3, 4, 5), ...more, context }
}
