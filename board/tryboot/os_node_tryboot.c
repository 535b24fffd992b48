// SPDX-License-Identifier: GPL-2.0
// Informs the firmware of a Raspberry Pi to start the boot partition of [tryboot] in autoboot.txt, once, at the next restart. The kernel of
// Debian does not pass `reboot "0 tryboot"` on. A panic or the watchdog does not pass here, so such a restart is an ordinary one.
//   known: the firmware answers questions for its reboot flags (read only)
//   armed: the next restart is a try
#include <linux/module.h>
#include <linux/of.h>
#include <linux/reboot.h>
#include <soc/bcm2835/raspberrypi-firmware.h>

#define GET_REBOOT_FLAGS 0x00030064
#define SET_REBOOT_FLAGS 0x00038064
#define TRYBOOT 1
#define NO_ANSWER 0xffffffff

static bool known;
module_param(known, bool, 0444);
static bool armed;
module_param(armed, bool, 0644);

static struct rpi_firmware *firmware;

static int on_restart(struct notifier_block *block, unsigned long action, void *command)
{
	u32 flags = TRYBOOT;
	int error;

	if (action != SYS_RESTART || !armed)
		return NOTIFY_DONE;
	error = rpi_firmware_property(firmware, SET_REBOOT_FLAGS, &flags, sizeof(flags));
	if (error)
		pr_err("os_node_tryboot: the firmware refuses the flag: %d\n", error);
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = on_restart };

static int __init tryboot_init(void)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "raspberrypi,bcm2835-firmware");
	u32 flags = NO_ANSWER;
	int error;

	if (!node)
		return -ENODEV;
	firmware = rpi_firmware_get(node);
	of_node_put(node);
	if (!firmware)
		return -EPROBE_DEFER;
	// a firmware that does not know the tag leaves the value as it is
	known = !rpi_firmware_property(firmware, GET_REBOOT_FLAGS, &flags, sizeof(flags)) && flags != NO_ANSWER;
	error = register_reboot_notifier(&notifier);
	if (error)
		rpi_firmware_put(firmware);
	return error;
}

static void __exit tryboot_exit(void)
{
	unregister_reboot_notifier(&notifier);
	rpi_firmware_put(firmware);
}

module_init(tryboot_init);
module_exit(tryboot_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Arms tryboot of the Raspberry Pi firmware");
