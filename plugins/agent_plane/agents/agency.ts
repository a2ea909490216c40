/** What the agents of a node have in the plane of one tenant: models, tools, memory, and the limits of their manifests. */
import type { StateStore, Svc } from 'svcdb'
import { type Agent, DEFAULT_TENANT, EffectError, type ModelProvider } from 'svcdb/agents'
import { AddressGuard, publicResolver, systemResolver } from 'svcdb/lib/egress'
import type { AgentPlaneConfig } from '../config.ts'
import type { DriverTools } from '../drive/driver.ts'
import { fakeModel } from '../models/fake.ts'
import { openAiCompatible } from '../models/openai-compatible.ts'
import type { TenantPlane } from '../planes.ts'
import { callHttp } from '../tools/http.ts'
import { toolServices } from '../tools/services.ts'
import { beginningsOf } from './beginnings.ts'
import { governor } from './govern.ts'
import { limitsOf } from './limits.ts'
import type { AgentRegistry } from './registry.ts'

const SECOND = 1000

export type Agency = Required<Pick<DriverTools, 'govern' | 'governing' | 'limitsOf' | 'beginnings' | 'refused' | 'resumed'>>

/** One for all tenants. */
export function agencies(svc: Svc, config: AgentPlaneConfig, registry: AgentRegistry): (plane: TenantPlane, state: StateStore) => Agency {
  const { allow_private_targets: isPrivate, models, tool_timeout_secs: toolTimeout } = config
  const guard = new AddressGuard(isPrivate, isPrivate ? systemResolver() : publicResolver())
  const now = () => svc.clock.now()
  const providers = new Map<string, ModelProvider>(
    models.map(({ name, base_url: baseUrl, key_env: variable, timeout_secs: timeout, input_price: inputPrice, output_price: outputPrice }) => {
      const http = (call: Parameters<typeof callHttp>[0]) => callHttp(call, { guard, timeoutMs: timeout * SECOND })
      const key = () => (variable === undefined ? undefined : process.env[variable])
      return [name, openAiCompatible({ baseUrl, key, inputPrice, outputPrice, now, http })]
    }),
  )
  return ({ tenant, agents }, state) => ({
    govern: governor({
      state,
      registry,
      now,
      model: (agent) => modelOf(agent, providers),
      begin: (request, parent) => agents.begin(request, parent),
      services(agent) {
        const { metadata, spec } = agent.manifest
        const { namespace = 'default', hosts } = spec.security ?? {}
        // What a tenant's runs read and write is the tenant's.
        const own = tenant === DEFAULT_TENANT ? namespace : tenant
        return toolServices(svc, { namespace: own, name: metadata.name, guard, timeoutMs: toolTimeout * SECOND, ...(hosts === undefined ? {} : { hosts }) })
      },
    }),
    governing: (capability) => registry.governing(capability),
    limitsOf: (capability) => limitsOf(registry.of(capability)),
    beginnings: (event) => beginningsOf(event, tenant, config),
    refused: ({ kind, id, source }, error) => svc.log.warn({ err: error, tenant, kind, id, source }, 'an event has not begun a run'),
    resumed: (run) => agents.offer(run),
  })
}

function modelOf(agent: Agent, providers: ReadonlyMap<string, ModelProvider>): ModelProvider {
  const name = agent.manifest.spec.models?.privileged.provider ?? ''
  const provider = name === 'fake' ? fakeModel(agent.script) : providers.get(name)
  if (provider === undefined)
    throw new EffectError(`there is no provider of models "${name}": name it in agent_plane.models`, { disposition: 'did_not_happen', permanent: true })
  return provider
}
