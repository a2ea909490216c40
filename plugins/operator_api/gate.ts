/**
 * Who may ask what. The order is the protection: who calls, whose plane, what the policies say, and only then whether what was asked has the right form. So whoever
 * is refused cannot tell an id that is none from one that nobody has.
 */
import type { Clock, LoadedPolicies, Logger } from 'svcdb'
import type { AgentPlanes, OperatedPlane } from 'svcdb/agents'
import type { ActionLabel } from './actions.ts'
import { shown } from './operation.ts'
import { Refusal } from './refusal.ts'
import type { Caller, Tokens } from './tokens.ts'

const BEARER = /^bearer +([\x21-\x7e]+) *$/i

export interface GateDependencies {
  tokens: Tokens
  planes: AgentPlanes
  policies: LoadedPolicies
  clock: Clock
  log: Logger
}

export class Gate {
  private readonly dependencies: GateDependencies

  constructor(dependencies: GateDependencies) {
    this.dependencies = dependencies
  }

  /** @throws Refusal 401. */
  authenticate(authorization: string | undefined): Caller {
    const token = BEARER.exec(authorization ?? '')?.[1]
    if (token === undefined) throw new Refusal(401, 'no credentials were presented; send "Authorization: Bearer <token>"')
    const caller = this.dependencies.tokens.callerOf(token, this.dependencies.clock.now())
    if (caller === undefined) throw new Refusal(401, 'the credentials that were presented are not accepted; check the token, and whether its time is over')
    return caller
  }

  /** @throws Refusal 403. */
  planeOf({ tenant }: Caller): OperatedPlane {
    const plane = this.dependencies.planes.find(tenant)
    if (plane === undefined)
      throw new Refusal(403, `there is no plane here for the tenant ${shown(tenant)} of the caller; agent_plane.tenants names those there are`)
    return plane
  }

  /** @throws Refusal 403 with the policy's reason, 500 where it cannot be told. */
  permit(caller: Caller, action: ActionLabel, resource: string): void {
    const { policies, log } = this.dependencies
    const { actor, roles, tenant } = caller
    const answer = policies.decide({
      principal: { type: 'Actor', id: actor },
      action,
      resource: { type: 'Resource', id: resource },
      context: { roles: [...roles], tenant },
    })
    if (answer.outcome === 'permit') return
    if (answer.outcome === 'deny') throw new Refusal(403, `${actor} may not do "${action}" here: ${answer.reason}; operator_api.policy says who may`)
    log.error({ actor, tenant, action, reason: answer.reason }, 'a call was refused: the policies could not be evaluated')
    throw new Refusal(500, 'the policy set could not be evaluated; the log of the server has why')
  }

  /** Asks about each action once, for each tenant: policies that cannot answer are found before the first call. @throws Error naming the action. */
  rehearse(actions: readonly ActionLabel[]): void {
    const { policies, planes } = this.dependencies
    for (const tenant of planes.tenants)
      for (const action of actions) {
        const answer = policies.decide({
          principal: { type: 'Actor', id: 'rehearsal' },
          action,
          resource: { type: 'Resource', id: '*' },
          context: { roles: [], tenant },
        })
        if (answer.outcome === 'malformed') throw new Error(`cannot evaluate the policies for "${action}" of tenant "${tenant}": ${answer.reason}`)
      }
  }
}
