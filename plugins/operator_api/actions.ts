/** The labels of the operations, which are what policies speak of: all there are, whether or not a plane can do them. */
export const ACTIONS = [
  'api:attention',
  'api:case.list',
  'api:case.read',
  'api:deadletter.list',
  'api:drill.read',
  'api:effect.reconcile',
  'api:event.deliver',
  'api:halt.lift',
  'api:halt.list',
  'api:halt.place',
  'api:hold.list',
  'api:hold.place',
  'api:hold.release',
  'api:obligation.acknowledge',
  'api:obligation.list',
  'api:push.list',
  'api:push.rearm',
  'api:run.abandon',
  'api:run.cancel',
  'api:run.history',
  'api:run.list',
  'api:run.live',
  'api:run.read',
  'api:run.reopen',
  'api:run.waiting',
  'api:task.claim',
  'api:task.decide',
  'api:task.list',
  'api:task.read',
  'api:task.release',
  'api:task.takeover',
] as const

export type ActionLabel = (typeof ACTIONS)[number]

/** Cedar: policies are checked against it when they are loaded. */
export const POLICY_SCHEMA = `
entity Actor;
entity Resource;
type Caller = { roles: Set<String>, tenant: String };
action ${ACTIONS.map((label) => JSON.stringify(label)).join(', ')} appliesTo { principal: [Actor], resource: [Resource], context: Caller };
`
