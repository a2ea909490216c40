/** The kinds of models by name, and which parameters each has: for the main thread, which loads none of the models themselves. */

/** The automatic choice. */
export const AUTO = 'auto'
/** Those of forecast/forecaster.ts, and the automatic choice. */
export const BUILT_IN: readonly string[] = ['ses', 'holt', 'holt_winters', 'arima', 'sarima', 'linear_regression', AUTO]
/** Each period has its state, which is kept. */
const MOST_PERIOD = 10_000

const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  ses: ['alpha'],
  holt: ['alpha', 'beta', 'phi'],
  holt_winters: ['alpha', 'beta', 'gamma', 'phi', 'period', 'multiplicative'],
  arima: ['order', 'constant'],
  sarima: ['order', 'seasonal_order', 'period', 'constant'],
  linear_regression: [],
  auto: ['folds', 'metric', 'max_order', 'max_period', 'period'],
}
const KINDS: Readonly<Record<string, string>> = {
  ses: 'Ses',
  holt: 'HoltLinear',
  holt_winters: 'HoltWinters',
  arima: 'Arima',
  sarima: 'Sarima',
  linear_regression: 'LinearRegression',
  auto: 'Auto',
}
const METRICS = ['rmse', 'mae', 'smape']

/** As models are listed: the kind of a name that requests may give. */
export const kindOf = (model: string): string => (Object.hasOwn(KINDS, model) ? KINDS[model] : `Custom(${model})`)

/** The name that a request means: a name, or a kind as it is listed. @param custom names that plugins have registered. */
export function nameOf(given: string, custom: readonly string[]): string | undefined {
  const lower = given.toLowerCase()
  const named = BUILT_IN.find((name) => name === lower || kindOf(name).toLowerCase() === lower)
  return named ?? custom.find((name) => name === given || kindOf(name) === given)
}

/** Why parameters of a model that is built in are wrong, as far as no values are needed; undefined = they are not. */
export function parametersProblem(model: string, parameters: Readonly<Record<string, unknown>>): string | undefined {
  if (!Object.hasOwn(PARAMETERS, model)) return undefined
  const known = PARAMETERS[model]
  for (const [name, value] of Object.entries(parameters)) {
    if (!known.includes(name)) return `${model} has no parameter "${name}"; ${known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`}`
    const problem = valueProblem(name, value)
    if (problem !== undefined) return `${name} ${problem}`
  }
  return undefined
}

function valueProblem(name: string, value: unknown): string | undefined {
  const whole = (least: number, most: number) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most ? undefined : `is a whole number from ${least} to ${most}`
  if (name === 'multiplicative' || name === 'constant') return typeof value === 'boolean' ? undefined : 'is true or false'
  if (name === 'order' || name === 'seasonal_order')
    return Array.isArray(value) && value.length === 3 && value.every(Number.isInteger) ? undefined : 'is three whole numbers, such as [1, 1, 1]'
  if (name === 'metric') return METRICS.includes(value as string) ? undefined : `is one of ${METRICS.join(', ')}`
  if (name === 'period') return whole(2, MOST_PERIOD)
  if (name === 'max_period') return whole(2, MOST_PERIOD)
  if (name === 'folds') return whole(1, 20)
  if (name === 'max_order') return whole(0, 5)
  return typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'is a number from 0 to 1'
}
