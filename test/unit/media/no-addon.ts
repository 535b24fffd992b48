// Imported first by tests that repeat others without the addon.
process.env.OS_NODE_NO_ADDON = '1'
