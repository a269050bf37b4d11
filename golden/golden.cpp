#include "golden/golden.h"
