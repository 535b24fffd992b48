// Display providers (specification, "Display provider and section"): the class that plugins extend, and the registry of
// the process.
import type { Plain } from './plain'
import type { DisplayProvider } from './provider'
import { DisplayRegistry, type RenderOptions, type SectionFilter } from './registry'
import { coreSections } from './sections'

export {
  aligned,
  DISPLAY_FORMATS,
  type DisplayFormat,
  parseFormat,
  rowsText,
  textOf,
  treeText,
  visible,
} from './formats'
export { providerOf } from './from-section'
export { filesSource, gatewaySource } from './gateway-source'
export { logText } from './log-text'
export { type Plain, plain } from './plain'
export { DisplayProvider, type SectionData } from './provider'
export { isCalled, namesOf, RegistryReader, type SectionInfo, type SectionReader, sectionNames } from './reader'
export { DisplayRegistry, type SectionFilter } from './registry'
export { useDisplaySource } from './sections'
export { fit, pad, textWidth } from './width'

const PLACE = Symbol.for('os-node.display-registry')
const shared = globalThis as { [PLACE]?: DisplayRegistry }

/** The registry of the process, with the built-in sections; a plugin with its own copy of this library finds the same one. */
export function getDisplayRegistry(): DisplayRegistry {
  const found = shared[PLACE]
  if (found) return found
  const fresh = new DisplayRegistry()
  for (const section of coreSections()) fresh.register(section)
  shared[PLACE] = fresh
  return fresh
}

/** Adds a provider to every user interface. False if a section of that name exists. Throws BAD_REQUEST. */
export const registerDisplayProvider = (provider: DisplayProvider): boolean => getDisplayRegistry().register(provider)

/** Removes a section. False if none has that name. */
export const unregisterDisplayProvider = (pluginName: string, sectionId: string): boolean =>
  getDisplayRegistry().unregister(pluginName, sectionId)

/**
 * One section in a format (default `json`): a dict or list, or a text for html and text. Throws NOT_FOUND, BAD_REQUEST,
 * TIMEOUT, and the provider's errors.
 */
export const renderSection = async (name: string, format: string = 'json', node: unknown = null): Promise<Plain> =>
  (await getDisplayRegistry().render(name, format, { node })).data

/** Every section by its name `<plugin>:<section>`, by priority; one that fails is `{error, code}`. Throws BAD_REQUEST. */
export const collectAllSections = (
  format: string = 'json',
  filter: SectionFilter & RenderOptions = {},
): Promise<Record<string, Plain>> => getDisplayRegistry().collect(format, filter)
